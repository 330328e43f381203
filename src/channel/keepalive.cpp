// SPDX-License-Identifier: MIT OR Apache-2.0
// The keepalive: an RDMA write of no bytes, sent when nothing else shows that the peer can be
// reached.
//
// It needs no receive and no memory of the peer, and touches none. The peer's device acknowledges
// it. So it proves that the path and the peer's queue pair work, but not that the peer's program
// does anything. It has its own slot, and a place in the send queue that the user's work cannot
// take.
#include <bit>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/slot_states.hpp"
#include "channel/work_failure.hpp"

namespace verbatim::detail {
namespace {

/// What the slots show about the time between two looks. The straight path keeps no counter for
/// this. A slot's id changes when its result is taken, and that is enough.
struct Traffic {
  std::uint64_t results = 0;  ///< Unchanged: no result was taken.
  bool is_sending = false;    ///< The device has a request, which will notice a lost peer itself.
};

Traffic look_at(const ChannelState& channel) noexcept {
  Traffic seen;
  for (const Slot& slot : slots_of(channel.sends)) {
    seen.results += slot.id;
    seen.is_sending |= is_in_flight(slot.state);
  }
  for (const Slot& slot : slots_of(channel.receives)) seen.results += slot.id;
  return seen;
}

}  // namespace

void ChannelState::begin_keepalive(Clock::time_point now) noexcept {
  if (keepalive.slot == nullptr) return;
  keepalive.due = end_of(options.keepalive, now);
  keepalive.seen = look_at(*this).results;
}

void ChannelState::step_keepalive(Clock::time_point now) noexcept {
  if (!queue_pair || now < keepalive.due || is_in_flight(keepalive.slot->state)) return;
  keepalive.due = end_of(options.keepalive, now);
  const Traffic traffic = look_at(*this);
  if (std::exchange(keepalive.seen, traffic.results) != traffic.results || traffic.is_sending)
    return;
  ibv_send_wr probe{};
  probe.wr_id = keepalive.slot->id;
  probe.opcode = IBV_WR_RDMA_WRITE;
  probe.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  // A device that refuses this is broken, and reports that in other ways.
  if (call(raw, &probe, &refused) == 0) keepalive.slot->state = SlotState::flying;
}

void ChannelState::take_in_keepalive(const ibv_wc& wc) noexcept {
  Slot& slot = *keepalive.slot;
  slot.state = SlotState::free;
  slot.id += kGeneration;
  if (wc.status == IBV_WC_WR_FLUSH_ERR) {
    ending.gave_back = true;
    return;
  }
  if (wc.status == IBV_WC_SUCCESS || ending.failure) return;
  ending.failure = work_failure(std::bit_cast<Completion>(wc));
  if (is_unanswered(status_of(*ending.failure)))
    ending.failure =
        Error{.code = Errc::peer_lost, .operation = "keepalive", .field = ending.failure->field};
  raise();
}

}  // namespace verbatim::detail
