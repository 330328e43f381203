// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/channel/detail/one_thread.hpp"

#if VERBATIM_IS_CHECKED

#include <unistd.h>

#include <array>
#include <cstdio>

#include "channel/channel_state.hpp"
#include "verbatim/base/check.hpp"
#include "verbs/life_log.hpp"

namespace verbatim::detail {
namespace {

VERBATIM_COLD void report(ChannelCore& channel, int other, int own,
                          const std::source_location& where) noexcept {
  thread_local std::array<char, 320> text;
  const ChannelState& state = whole(channel);
  const ObjectName name = name_of_queue_pair(state.queue_pair_number, state.cq->context);
  std::snprintf(text.data(), text.size(),
                "Channel: used by two threads at once: thread %d is inside of the channel over %s, "
                "and thread %d comes in; one has to be ordered after the other",
                other, name.text.data(), own);
  contract_violated(text.data(), 0, 0, where);
}

}  // namespace

Entry::Entry(ChannelCore& channel, const std::source_location& where) noexcept {
  if (&channel == &gone_channel) return;  // Belongs to nobody; the post reports it.
  thread_local const int own = gettid();
  int other = 0;
  if (channel.one_thread.inside.compare_exchange_strong(other, own, std::memory_order_relaxed))
    flag_ = &channel.one_thread.inside;
  else if (other != own)
    report(channel, other, own, where);
}

}  // namespace verbatim::detail

#endif
