// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soak/footprint.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace verbatim::test {
namespace {

namespace fs = std::filesystem;

std::size_t entries(const std::string& directory) {
  std::error_code ignored;
  std::size_t count = 0;
  for (fs::directory_iterator each{directory, ignored}, end; !ignored && each != end;
       each.increment(ignored))
    ++count;
  return count;
}

std::size_t lines(const std::string& file) {
  std::ifstream in{file};
  std::string line;
  std::size_t count = 0;
  while (std::getline(in, line)) ++count;
  return count;
}

}  // namespace

std::vector<Figure> footprint_of(pid_t process, const std::string& name) {
  const std::string place = "/proc/" + std::to_string(process);
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream{place + "/statm"} >> total >> resident;
  const std::size_t kib = resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
  // The allocator keeps some memory, and the device keeps what it has not released yet, from the
  // clients of the last half second. That must be the same after the thousandth client as after the
  // tenth.
  return {{name + " descriptors", entries(place + "/fd"), 24},
          {name + " mappings", lines(place + "/maps"), 64},
          {name + " threads", entries(place + "/task"), 0},
          {name + " resident KiB", kib, 1024 + kib / 20}};
}

std::vector<Figure> footprint_of(const std::string& directory) {
  std::size_t files = 0;
  std::size_t kib = 0;
  std::error_code ignored;
  for (fs::recursive_directory_iterator each{directory, ignored}, end; !ignored && each != end;
       each.increment(ignored)) {
    struct stat found{};
    if (lstat(each->path().c_str(), &found) != 0) continue;
    ++files;
    kib += static_cast<std::size_t>(found.st_blocks) / 2;
  }
  return {{"files", files, 0}, {"files' KiB", kib, 320}};
}

}  // namespace verbatim::test
