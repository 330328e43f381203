// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/completion_channel.hpp"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>

#include "base/timespec.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbs/completion_state.hpp"

namespace verbatim {
namespace detail {

Result<std::size_t> CompletionChannelState::drain() {
  std::size_t taken = 0;
  for (;;) {
    ibv_cq* queue = nullptr;
    void* owner = nullptr;
    if (const int failed = raw.provider().get_cq_event(raw.get(), &queue, &owner); failed != 0) {
      const int os_error = failed > 0 ? failed : errno;
      if (os_error == EAGAIN) return taken;
      if (os_error == EINTR) continue;
      return std::unexpected(os_failure("ibv_get_cq_event", os_error));
    }
    // The queue cannot be destroyed before the acknowledgement, so its state still exists. The
    // event counts as a wake-up even if nobody has taken the queue's earlier mark.
    static_cast<CompletionQueueState*>(owner)->signal.store(true);
    ++taken;
    raw.provider().ack_cq_events(queue, 1);
  }
}

Result<bool> CompletionChannelState::sleep(std::chrono::steady_clock::time_point deadline) const {
  pollfd entry{.fd = raw.get()->fd, .events = POLLIN, .revents = 0};
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::max(deadline - now, std::chrono::steady_clock::duration::zero()));
    const timespec time = detail::to_timespec(left);
    const int ready = ppoll(&entry, 1, &time, nullptr);
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return std::unexpected(os_failure("ppoll", errno));
  }
}

}  // namespace detail

CompletionChannel::CompletionChannel(std::shared_ptr<detail::CompletionChannelState> state) noexcept
    : state_(std::move(state)) {}

int CompletionChannel::fd() const noexcept { return state_->raw.get()->fd; }

Result<std::size_t> CompletionChannel::wait(std::chrono::nanoseconds timeout) const {
  VERBATIM_TRY(state_->raw.context().usable("ibv_get_cq_event"));
  const auto deadline = detail::wake_time(timeout);
  for (;;) {
    if (const std::size_t taken = VERBATIM_TRY(state_->drain()); taken > 0) return taken;
    if (!VERBATIM_TRY(state_->sleep(deadline)))
      return std::unexpected(Error{.code = Errc::timed_out, .operation = "ibv_get_cq_event"});
  }
}

Result<CompletionChannel> Context::create_completion_channel() const {
  VERBATIM_TRY(state_->usable("ibv_create_comp_channel"));
  const Provider& provider = state_->provider;
  ibv_comp_channel* const raw = provider.create_comp_channel(state_->raw);
  if (raw == nullptr) return std::unexpected(os_failure("ibv_create_comp_channel", errno));
  detail::Handle<ibv_comp_channel> handle{state_, raw, provider.destroy_comp_channel,
                                          "ibv_destroy_comp_channel"};
  // Non-blocking, so that draining stops after the last event.
  const int flags = fcntl(raw->fd, F_GETFL);
  if (flags < 0 || fcntl(raw->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return std::unexpected(os_failure("fcntl", errno));
  return CompletionChannel{std::make_shared<detail::CompletionChannelState>(std::move(handle))};
}

}  // namespace verbatim
