// SPDX-License-Identifier: MIT OR Apache-2.0
#include "run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "supervisor.hpp"
#include "verbatim/network/coordinator.hpp"

namespace verbatim::cli {
namespace {

constexpr int kOurFault = 125;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

/// What this program sets, and what would contradict it.
constexpr std::string_view kVariables[] = {
    "VERBATIM_RANK=",        "VERBATIM_WORLD=",  "VERBATIM_JOB=",
    "VERBATIM_COORDINATOR=", "VERBATIM_SECRET=", "VERBATIM_SECRET_FILE="};

std::string rank_variable(std::uint32_t rank) { return "VERBATIM_RANK=" + std::to_string(rank); }

/// The environment of a rank: ours, with these variables replaced. The first is the rank; each rank
/// has its own.
std::vector<std::string> environment(const RunOptions& options, const std::string& coordinator,
                                     const Secret& secret) {
  std::vector<std::string> result{
      rank_variable(0), "VERBATIM_WORLD=" + std::to_string(options.ranks),
      "VERBATIM_JOB=" + options.job, "VERBATIM_COORDINATOR=" + coordinator,
      "VERBATIM_SECRET=" + secret.to_hex()};
  for (char** each = environ; *each != nullptr; ++each)
    if (std::ranges::none_of(kVariables,
                             [&](auto name) { return std::string_view{*each}.starts_with(name); }))
      result.emplace_back(*each);
  return result;
}

/// If one of the first three is closed, a program would find one of our descriptors in its place.
void fill_standard_descriptors() noexcept {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));
}

int complain(const char* what, int failure, int status) {
  std::fprintf(stderr, "verbatim run: %s: %s\n", what, std::strerror(failure));
  return status;
}

int status_of_start(int failure) noexcept {
  if (failure == ENOENT) return kNotFound;
  for (const int ours : {EAGAIN, ENOMEM, EMFILE, ENFILE})
    if (failure == ours) return kOurFault;
  return kCannotRun;
}

int run(const RunOptions& options) {
  fill_standard_descriptors();
  Supervisor supervisor{options};
  if (const int failed = supervisor.prepare(); failed != 0)
    return complain("cannot start this many ranks", failed, kOurFault);
  const Secret secret = Secret::random();
  auto coordinator =
      Coordinator::open({.world = options.ranks, .secret = secret, .job = options.job});
  if (!coordinator) {
    std::fprintf(stderr, "verbatim run: %s\n", to_string(coordinator.error()).c_str());
    return kOurFault;
  }
  auto variables = environment(options, coordinator->address(), secret);
  auto command = options.command;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    variables[0] = rank_variable(rank);
    const int failed = supervisor.start(command, variables);
    if (failed == 0) continue;
    supervisor.give_up(complain(command[0].c_str(), failed, status_of_start(failed)));
    break;
  }
  // Otherwise the coordinator would wait for a rank that ended before it joined.
  return supervisor.wait([&](std::uint32_t rank) { coordinator->rank_ended(rank); });
}

}  // namespace

void add_run(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<RunOptions>();
  CLI::App& command =
      *app.add_subcommand("run", "Start a program as the ranks of a job on this machine");
  command.add_option("-n,--ranks", options->ranks, "Number of ranks")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{kMostRanks}));
  command.add_option("--job", options->job, "Name of the job (default: verbatim)");
  command.add_flag("--keep-going", options->keep_going, "If a rank fails, let the others continue");
  command.add_flag("!--no-prefix", options->prefix, "Do not put [RANK] before each line of output");
  command
      .add_option(
          "--grace", options->grace_s,
          "If a rank fails, seconds between SIGTERM and SIGKILL for the others (default: 5)")
      ->check(CLI::Range(0.0, 86400.0));
  command.footer("verbatim run -n RANKS [OPTIONS] -- PROGRAM [ARGUMENT...]");
  command.callback([options, &line] {
    options->command = line.required_program();
    line.status = run(*options);
  });
}

}  // namespace verbatim::cli
