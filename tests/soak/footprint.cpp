// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soak/footprint.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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
  // The allocator keeps some memory, which must be the same after the thousandth client as after
  // the tenth. A server may come to map the two others, with a descriptor and four mappings each.
  return {{name + " descriptors", entries(place + "/fd"), 4},
          {name + " mappings", lines(place + "/maps"), 12},
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

std::set<std::string> SharedMemory::names() {
  std::set<std::string> found;
  std::error_code ignored;
  for (fs::directory_iterator each{"/dev/shm", ignored}, end; !ignored && each != end;
       each.increment(ignored))
    if (std::string name = each->path().filename(); name.starts_with("verbatim"))
      found.insert(std::move(name));
  return found;
}

Figure SharedMemory::new_entries() const {
  const std::set<std::string> now = names();
  const auto is_new = [this](const std::string& name) { return !before_.contains(name); };
  // Our directory is one of them. A few other programs may use the device at the same time.
  return {"new entries of /dev/shm", static_cast<std::size_t>(std::ranges::count_if(now, is_new)),
          8, 0};
}

}  // namespace verbatim::test
