// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Many requests, one doorbell and one handle: what must be inline of it.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "verbatim/channel/detail/slots.hpp"

namespace verbatim::detail {

/// Whether none was given, as with most requests: all of them in one compare.
VERBATIM_HOT bool are_plain(const SendOptions& options) noexcept {
  // Behind the value of the immediate: whether there is one, the three flags, and nothing.
  static_assert(sizeof(SendOptions) == 12 && offsetof(SendOptions, solicited) == 10);
  std::uint64_t word;
  std::memcpy(&word, reinterpret_cast<const std::byte*>(&options) + 4, sizeof word);
  return (std::endian::native == std::endian::little ? word << 8 : word >> 8) == 0;
}
VERBATIM_HOT bool are_plain(const ReadOptions& options) noexcept { return !options.fenced; }

template <SendWork Work, class Options>
VERBATIM_HOT bool encode_chained(const ChannelCore& channel, const Work& work,
                                 const Options& chosen, std::uint32_t end,
                                 ibv_send_wr& wr) noexcept {
  if (!accepts(channel.limits, shape(work, chosen), end)) [[unlikely]]
    return false;
  encode(work, chosen, 0u, wr);
  return true;
}
/// Out of line, to leave the registers to requests without options.
template <SendWork Work>
[[gnu::noinline]] bool encode_chosen(const ChannelCore& channel, const Work& work,
                                     std::uint32_t end, ibv_send_wr& wr) noexcept {
  return encode_chained(channel, work, work.options, end, wr);
}

/// All of `works`; nothing is posted if they do not all fit. Calls `look` with each of them first.
template <SendWork Work, std::invocable<const Work&> Look>
Ticket post_batch(ChannelCore& channel, std::span<const Work> works, Post how, Look look) {
  if (works.empty()) [[unlikely]]
    return channel.refuse_batch(0, how);
  [[maybe_unused]] const Entry entry{channel, how.where};
  const std::uint32_t end = channel.end_of_message.load(std::memory_order_acquire);
  Slot* const first = channel.sends.free;
  Slot* slot = first;
  ibv_send_wr* wr = channel.batch_requests;
  const Work* work = works.data();
  const Work* const last = work + works.size() - 1;
  // The slots stay in the free list until the device has everything: what was done to them does no
  // harm there.
  for (;; ++work, ++wr, slot = slot->next) {
    look(*work);
    if (slot == nullptr) [[unlikely]]
      return channel.refuse_batch(static_cast<std::size_t>(last - work) + 1, how);
    // Options that are known when this is compiled fold away.
    using Options = decltype(work->options);
    const bool taken = are_plain(work->options)
                           ? encode_chained(channel, *work, Options{}, end, *wr)
                           : encode_chosen(channel, *work, end, *wr);
    if (!taken) [[unlikely]]
      return channel.refuse_send(shape(*work, work->options), how);
    mark(*slot, SlotState::chained, takes_receive(*work));
    wr->wr_id = slot->id;
    if (work == last) break;
  }
  if constexpr (dma::kModelled) {
    Slot* each = first;
    for (const Work& taken : works) {
      take_off(channel.sends, *each, taken, how.where);
      each = each->next;
    }
  }
  return channel.finish_batch(*wr, *first, *slot, how);
}

}  // namespace verbatim::detail
