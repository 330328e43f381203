// SPDX-License-Identifier: MIT OR Apache-2.0
#include "preload/place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "base/uncancelled.hpp"
#include "preload/original.hpp"

namespace verbatim::preload {
namespace {

using std::string_view;

constinit Original<int(const char*, int, mode_t)> real_open{"open"};
constinit Original<ssize_t(const char*, char*, std::size_t)> real_readlink{"readlink"};

constexpr char kMark[] = "/verbatim-directory-";
constexpr string_view kRemoved = " (deleted)";  // The kernel appends this to a deleted name.
constexpr char kSeparator = ':';                // Stands for the slashes of a path in a name.

/// Whether this process ever opened a descriptor for one of our directories.
constinit std::atomic<bool> has_descriptors{false};
enum class Working : std::uint8_t { unknown, ours, other };
constinit std::atomic<Working> working{Working::unknown};

/// Runs before main(), for the reason in path_hooks.cpp.
[[gnu::constructor]] void find_real_calls() noexcept {
  real_open.find();
  real_readlink.find();
}

}  // namespace

int open_directory(string_view path, int flags) noexcept {
  if ((flags & O_ACCMODE) != O_RDONLY) {
    errno = EISDIR;
    return -1;
  }
  const Uncancelled here;
  static constinit std::atomic<unsigned> count{0};
  char name[256];
  for (const char* const parent : {"/dev/shm", "/tmp"}) {
    std::snprintf(name, sizeof name, "%s%s%d-%u%.*s", parent, kMark, getpid(), count.fetch_add(1),
                  static_cast<int>(path.size()), path.data());
    char* const slash = name + string_view{name}.size() - path.size();
    std::replace(slash, slash + path.size(), '/', kSeparator);
    if (mkdir(name, 0700) != 0) continue;
    const int fd = real_open(name, O_DIRECTORY | (flags & (O_CLOEXEC | O_PATH)), 0);
    const int failure = errno;
    rmdir(name);
    if (fd >= 0) has_descriptors.store(true, std::memory_order_relaxed);
    errno = failure;
    return fd;
  }
  return -1;
}

std::size_t path_of_directory(int directory, char* text, std::size_t room) noexcept {
  const bool is_working = directory == AT_FDCWD;
  if (is_working ? working.load(std::memory_order_relaxed) == Working::other
                 : !has_descriptors.load(std::memory_order_relaxed))
    return 0;
  const int errno_before = errno;
  char link[64] = "/proc/self/cwd";
  char name[320];
  if (!is_working) std::snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
  const ssize_t length = real_readlink(link, name, sizeof name);
  errno = errno_before;
  string_view found{name, length > 0 ? static_cast<std::size_t>(length) : 0};
  const bool is_ours = found.ends_with(kRemoved) && found.find(kMark) != string_view::npos &&
                       found.find(kSeparator) != string_view::npos;
  if (is_working)
    working.store(is_ours ? Working::ours : Working::other, std::memory_order_relaxed);
  if (!is_ours) return 0;
  found.remove_suffix(kRemoved.size());
  found.remove_prefix(found.find(kSeparator));
  if (found.size() > room) return 0;
  std::replace_copy(found.begin(), found.end(), text, kSeparator, '/');
  return found.size();
}

void forget_working_directory() noexcept {
  working.store(Working::unknown, std::memory_order_relaxed);
}

Place::Place(const char* path) noexcept : Place(AT_FDCWD, path) {}

Place::Place(int directory, const char* path) noexcept : directory_(directory), path_(path) {
  if (path == nullptr || *path == '\0') return;
  // Every file that a program opens comes through here. This first test ends the work for most of
  // them: only /dev, /sys, //... and /./... go on.
  const bool is_absolute = path[0] == '/';
  if (is_absolute && !string_view{"ds/."}.contains(path[1])) return;
  if (!is_absolute) size_ = path_of_directory(directory, text_, sizeof text_);
  if ((!is_absolute && size_ == 0) || DevicesHidden::now()) return;
  follow(path);
  settle(!is_absolute);
}

void Place::follow(const char* path) noexcept {
  string_view rest{path};
  while (!rest.empty()) {
    const string_view component = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(component.size() + 1, rest.size()));
    if (component.empty() || component == ".") continue;
    if (component != ".." || !step_up()) append(component);
  }
}

void Place::settle(bool began_at_ours) noexcept {
  if (too_long_) return;
  is_ours_ = find_system_file(name(), file_);
  if (is_ours_ || (!began_at_ours && !left_ours_)) return;
  if (size_ == 0) append("");
  text_[size_] = '\0';
  path_ = text_;
  directory_ = AT_FDCWD;
}

/// Goes up only from our own directories, because the kernel's may be links to elsewhere.
bool Place::step_up() noexcept {
  SystemFile here;
  if (too_long_ || !find_system_file(name(), here)) return false;
  size_ = name().rfind('/');
  left_ours_ = true;
  return true;
}

void Place::append(string_view component) noexcept {
  if (size_ + component.size() + 2 > sizeof text_) too_long_ = true;
  if (too_long_) return;
  text_[size_++] = '/';
  size_ += component.copy(text_ + size_, component.size());
}

}  // namespace verbatim::preload
