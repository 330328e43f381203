// SPDX-License-Identifier: MIT OR Apache-2.0
#include "provider/fork_guard.hpp"

#include <cerrno>
#include <mutex>

namespace verbatim::detail {
namespace {

std::mutex listeners_mutex;
ForkListener* first_listener = nullptr;

int refuse_send(ibv_qp*, ibv_send_wr* wr, ibv_send_wr** rejected) {
  *rejected = wr;
  return EOWNERDEAD;
}
int refuse_receive(ibv_qp*, ibv_recv_wr* wr, ibv_recv_wr** rejected) {
  *rejected = wr;
  return EOWNERDEAD;
}
int refuse_shared_receive(ibv_srq*, ibv_recv_wr* wr, ibv_recv_wr** rejected) {
  *rejected = wr;
  return EOWNERDEAD;
}
int refuse_poll(ibv_cq*, int, ibv_wc*) { return -EOWNERDEAD; }
int refuse_notify(ibv_cq*, int) { return EOWNERDEAD; }

}  // namespace

const ForkHandlers ForkListener::kHandlers{&before_fork, &after_fork_in_parent,
                                           &after_fork_in_child};

void ForkListener::listen() {
  const std::lock_guard lock{listeners_mutex};
  next_ = first_listener;
  if (next_ != nullptr) next_->previous_ = this;
  first_listener = this;
}

void ForkListener::stop_listening() noexcept {
  const std::lock_guard lock{listeners_mutex};
  if (next_ != nullptr) next_->previous_ = previous_;
  (previous_ != nullptr ? previous_->next_ : first_listener) = next_;
}

// The lock is held across the fork, so that the child finds a consistent list.
void ForkListener::before_fork() { listeners_mutex.lock(); }
void ForkListener::after_fork_in_parent() { listeners_mutex.unlock(); }
void ForkListener::after_fork_in_child() {
  for (ForkListener* each = first_listener; each != nullptr; each = each->next_) each->forked();
  listeners_mutex.unlock();
}

void ForkGuard::forked() noexcept {
  in_child_.store(true);
  auto& ops = context_->ops;
  ops.post_send = &refuse_send;
  ops.post_recv = &refuse_receive;
  ops.post_srq_recv = &refuse_shared_receive;
  ops.poll_cq = &refuse_poll;
  ops.req_notify_cq = &refuse_notify;
}

bool is_forked(const ibv_context* context) noexcept { return context->ops.poll_cq == &refuse_poll; }

}  // namespace verbatim::detail
