// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/private_descriptor.hpp"

#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace verbatim::detail {
namespace {

std::mutex list_mutex;
PrivateDescriptor* list_head = nullptr;

}  // namespace

// The lock is held across the fork, so that the child finds a consistent list.
const ForkHandlers PrivateDescriptor::kHandlers{[] { list_mutex.lock(); },
                                                [] { list_mutex.unlock(); },
                                                [] {
                                                  close_all_in_child();
                                                  list_mutex.unlock();
                                                }};

PrivateDescriptor::Lock::Lock() noexcept {
  const int before = errno;
  list_mutex.lock();
  errno = before;
}

PrivateDescriptor::Lock::~Lock() {
  const int before = errno;
  list_mutex.unlock();
  errno = before;
}

void PrivateDescriptor::close_all_in_child() noexcept {
  while (list_head != nullptr) ::close(list_head->let_go());
}

void PrivateDescriptor::hold(int fd) noexcept {
  fd_ = fd;
  if (fd < 0) return;
  next_ = list_head;
  if (next_ != nullptr) next_->previous_ = this;
  list_head = this;
}

int PrivateDescriptor::let_go() noexcept {
  if (fd_ < 0) return -1;
  if (next_ != nullptr) next_->previous_ = previous_;
  (previous_ != nullptr ? previous_->next_ : list_head) = next_;
  next_ = previous_ = nullptr;
  return std::exchange(fd_, -1);
}

void PrivateDescriptor::reset() noexcept {
  if (fd_ < 0) return;
  const Lock lock;
  if (const int fd = let_go(); fd >= 0) ::close(fd);
}

PrivateDescriptor& PrivateDescriptor::operator=(PrivateDescriptor&& other) noexcept {
  if (this == &other) return *this;
  reset();
  const Lock lock;
  hold(other.let_go());
  return *this;
}

}  // namespace verbatim::detail
