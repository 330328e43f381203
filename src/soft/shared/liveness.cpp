// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/liveness.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/uncancelled.hpp"
#include "soft/shared/directory.hpp"
#include "soft/shared/layout.hpp"

namespace verbatim::engine {

Liveness::~Liveness() {
  const Uncancelled here;
  if (fd_ >= 0) close(fd_);
}

/// Marks the process as dead, for good.
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
  // An access beyond the end of a truncated file raises SIGBUS. A file without a name belongs to a
  // process that is ending, and its slot may already belong to another.
  return holds_lock() && ((fstat(fd_, &info) == 0 && info.st_nlink > 0 &&
                           static_cast<std::uint64_t>(info.st_size) >= kSegmentBytes) ||
                          bury());
}

bool Liveness::ask() noexcept {
  // Reads the time first. If the process dies in between, the next check notices it.
  const std::uint64_t until = ticks() + kTicksPerQuestion;
  if (!is_alive()) return false;
  alive_until_.store(until, std::memory_order_relaxed);
  // Another thread may meanwhile have found the process dead. That must stay final.
  if (!dead_.load()) return true;
  alive_until_.store(0);
  return false;
}

std::uint64_t own_pid_namespace() noexcept {
  struct stat info{};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

namespace {

/// Returns the rest of /proc/<pid>/stat after the name, which may contain spaces and parentheses.
/// nullptr if there is no such process.
const char* status_of(std::uint32_t pid, char (&text)[1024]) noexcept {
  const Uncancelled here;
  std::snprintf(text, sizeof text, "/proc/%u/stat", pid);
  const int fd = ::open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  const ssize_t size = ::read(fd, text, sizeof text - 1);
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
