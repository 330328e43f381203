// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/liveness.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "soft/shared/directory.hpp"
#include "soft/shared/layout.hpp"

namespace verbatim::engine {

Liveness::~Liveness() {
  if (fd_ >= 0) close(fd_);
}

/// It is dead from now on.
bool Liveness::bury() noexcept {
  dead_.store(true);
  alive_until_.store(0);
  return false;
}

bool Liveness::holds_lock() noexcept {
  if (fd_ < 0) return true;
  return !dead_.load() && (Directory::is_held(fd_) || bury());
}

bool Liveness::is_alive() noexcept {
  if (fd_ < 0) return true;
  struct stat info{};
  // Beyond the end of a file that was cut short there is only SIGBUS. One that has no name any more
  // is that of a process that is leaving: its slot may be another's already.
  return holds_lock() && ((fstat(fd_, &info) == 0 && info.st_nlink > 0 &&
                           static_cast<std::uint64_t>(info.st_size) >= kSegmentBytes) ||
                          bury());
}

bool Liveness::ask() noexcept {
  // First the time, then the question: a death in between is found out at the next one.
  const std::uint64_t until = ticks() + kTicksPerQuestion;
  if (!is_alive()) return false;
  alive_until_.store(until, std::memory_order_relaxed);
  // Another thread may have found it dead in between; nobody may think otherwise afterwards.
  if (!dead_.load()) return true;
  alive_until_.store(0);
  return false;
}

std::uint64_t own_pid_namespace() noexcept {
  struct stat info{};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

namespace {

/// The line of /proc/<pid>/stat behind the name, which may hold spaces and parentheses; nullptr:
/// there is no such process.
const char* status_of(std::uint32_t pid, char (&text)[1024]) noexcept {
  std::snprintf(text, sizeof text, "/proc/%u/stat", pid);
  const int fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return nullptr;
  text[size] = '\0';
  return std::strrchr(text, ')');
}

}  // namespace

std::uint64_t start_time_of(std::uint32_t pid) noexcept {
  char text[1024];
  const char* at = status_of(pid, text);
  for (int field = 2; field < 22 && at != nullptr; ++field) at = std::strchr(at + 1, ' ');
  return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

bool is_process_stopped(std::uint32_t pid) noexcept {
  char text[1024];
  const char* const at = status_of(pid, text);
  return at != nullptr && at[1] == ' ' && (at[2] == 'T' || at[2] == 't');
}

}  // namespace verbatim::engine
