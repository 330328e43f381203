// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A file descriptor that is closed with its owner.
#include "verbatim/base/language.hpp"

#include <unistd.h>

#include <utility>

namespace verbatim::detail {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

}  // namespace verbatim::detail
