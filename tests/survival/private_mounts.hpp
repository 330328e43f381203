// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file File systems that only this process and its children see. For a contained child: if
/// mounting is not permitted, it ends with cannot().
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "survival/contained.hpp"

namespace verbatim::test {

/// From now on, mounts here are not visible elsewhere.
inline void own_mounts() {
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    cannot("a mount namespace");
}

inline void mount_tmpfs(const std::string& place, const std::string& options) {
  if (mount("tmpfs", place.c_str(), "tmpfs", 0, options.c_str()) != 0) cannot("mounting a tmpfs");
}

/// Leaves no page of that file system free.
inline void fill_up(const std::string& place) {
  const int fd = open((place + "/ballast").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  static constexpr std::array<char, 4096> page{};
  while (write(fd, page.data(), page.size()) > 0) {
  }
  ::close(fd);
}

}  // namespace verbatim::test
