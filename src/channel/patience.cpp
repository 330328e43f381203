// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/patience.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>

#include "base/relax_processor.hpp"
#include "base/timespec.hpp"
#include "channel/channel_state.hpp"
#include "channel/interrupt.hpp"

namespace verbatim::detail {

Patience::Patience(ChannelState& channel, Deadline deadline, Clock::time_point start) noexcept
    : channel_(channel),
      deadline_(deadline.kind() == Deadline::Kind::own ? Deadline{channel.options.timeout}
                                                       : deadline),
      start_(start),
      end_(deadline_.kind() == Deadline::Kind::absolute ? deadline_.when()
                                                        : Clock::time_point::max()) {
  if (start_ != Clock::time_point{} && deadline_.kind() == Deadline::Kind::relative)
    end_ = start_ + deadline_.limit();
}

void Patience::pause() noexcept {
  const WaitPolicy& policy = channel_.options.wait;
  const auto waited = now_ - start_;
  if (waited < policy.spin) return relax_processor();
  if (!policy.sleep || waited - policy.spin < policy.yield) {
    sched_yield();
    return;
  }
  sleep(std::min({end_, now_ + kNap, channel_.next_deadline()}));
}

void Patience::sleep(Clock::time_point until) noexcept {
  CompletionCore& core = *channel_.core;
  if (!core.arm()) {  // Cannot be armed: keep polling, but let others run.
    sched_yield();
    return;
  }
  if (core.drain() != 0) return;  // It arrived between the last poll and the arming.
  if (!channel_.cause && channel_.interrupted.load()) return;
  const auto left = std::max(until - Clock::now(), Clock::duration::zero());
  const timespec time = to_timespec(left);
  // If the channel is ending, the interrupt has been handled. ppoll ignores negative descriptors.
  const int interrupt = channel_.cause || ignores_waker_ ? -1 : channel_.interrupt->waker->fd();
  const short wanted = channel_.link_events();
  pollfd sources[] = {
      {.fd = core.events.fd(), .events = POLLIN, .revents = 0},
      {.fd = interrupt, .events = POLLIN, .revents = 0},
      {.fd = wanted != 0 ? channel_.link.fd() : -1, .events = wanted, .revents = 0}};
  if (ppoll(sources, std::size(sources), &time, nullptr) <= 0) return;
  // The wake-up was for the Reactor, which will see it later. Do not wake up for it again and
  // again.
  if (sources[1].revents != 0 && channel_.interrupt->is_shared) ignores_waker_ = true;
  if (sources[2].revents != 0) channel_.link_is_ready();
  if (sources[0].revents == 0) return;
  // Takes and acknowledges the event. If that fails, the next sleep is shorter, and nothing else
  // happens.
  [[maybe_unused]] const auto taken = core.events.wait(std::chrono::nanoseconds{0});
}

}  // namespace verbatim::detail
