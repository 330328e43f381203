// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A separate directory for the software device, so that tests do not meet each other.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

namespace verbatim::test {

/// Named by VERBATIM_SOFT_DIR while this lives. It does not exist yet: a process that was killed
/// may have had the same pid, and so may one in another container.
class TemporarySoftDirectory {
 public:
  TemporarySoftDirectory() {
    static std::atomic<unsigned> made{0};
    const bool has_shm = std::filesystem::is_directory("/dev/shm");
    path_ = std::string{has_shm ? "/dev/shm" : "/tmp"} + "/verbatim-unit-" +
            std::to_string(getpid()) + "-" + std::to_string(++made) + "-" +
            std::to_string(std::random_device{}());
    if (const char* const before = std::getenv("VERBATIM_SOFT_DIR")) before_ = before;
    setenv("VERBATIM_SOFT_DIR", path_.c_str(), 1);
  }
  TemporarySoftDirectory(const TemporarySoftDirectory&) = delete;
  TemporarySoftDirectory& operator=(const TemporarySoftDirectory&) = delete;
  ~TemporarySoftDirectory() {
    if (before_.empty()) {
      unsetenv("VERBATIM_SOFT_DIR");
    } else {
      setenv("VERBATIM_SOFT_DIR", before_.c_str(), 1);
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  std::string before_;
};

}  // namespace verbatim::test
