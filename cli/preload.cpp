// SPDX-License-Identifier: MIT OR Apache-2.0
#include "preload.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

namespace verbatim::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kOurFault = 125;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

/// Looks next to the program, then where an installation puts libraries. A build tree has the same
/// layout.
std::optional<fs::path> find_library(const fs::path& name) {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return std::nullopt;
  for (const char* const place : {".", VERBATIM_LIBRARY_DIR, "../lib"}) {
    const fs::path candidate = fs::canonical(program.parent_path() / place / name, failed);
    if (!failed) return candidate;
  }
  return std::nullopt;
}

struct PreloadOptions {
  std::vector<std::string> command;  ///< The program and its arguments; not empty.
  bool stand_alone = false;          ///< Replace libibverbs instead of intercepting its calls.
};

int preload(const PreloadOptions& options) {
  const fs::path name = options.stand_alone ? "verbatim/libibverbs.so.1" : "libverbatim-preload.so";
  const auto library = find_library(name);
  if (!library) {
    std::fprintf(stderr, "verbatim preload: cannot find %s beside this program or in its %s\n",
                 name.c_str(), VERBATIM_LIBRARY_DIR);
    return kOurFault;
  }
  if (library->native().find_first_of(" :") != std::string::npos) {
    // The dynamic linker would take it for two names, and only warn.
    std::fprintf(stderr,
                 "verbatim preload: LD_PRELOAD cannot name a path with a space or colon: %s\n",
                 library->c_str());
    return kOurFault;
  }
  std::string preloaded = library->native();
  if (const char* const before = std::getenv("LD_PRELOAD"); before != nullptr && *before != '\0')
    preloaded += std::string{":"} + before;
  if (setenv("LD_PRELOAD", preloaded.c_str(), 1) != 0) {
    std::perror("verbatim preload: setenv");
    return kOurFault;
  }
  std::vector<char*> arguments;
  for (const std::string& word : options.command)
    arguments.push_back(const_cast<char*>(word.c_str()));  // execvp does not write to them.
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int failure = errno;
  std::fprintf(stderr, "verbatim preload: %s: %s\n", arguments[0], std::strerror(failure));
  return failure == ENOENT ? kNotFound : kCannotRun;
}

}  // namespace

void add_preload(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<PreloadOptions>();
  CLI::App& command =
      *app.add_subcommand("preload", "Run a program that uses RDMA on the software device soft0");
  command.add_flag("--stand-alone", options->stand_alone,
                   "Replace libibverbs completely: it need not be installed, and real devices are "
                   "hidden");
  command.footer("verbatim preload [OPTIONS] -- PROGRAM [ARGUMENT...]");
  command.callback([options, &line] {
    options->command = line.required_program();
    line.status = preload(*options);
  });
}

}  // namespace verbatim::cli
