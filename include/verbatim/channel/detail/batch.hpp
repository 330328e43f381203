// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Many requests with one doorbell: the part that must be inline. All sends share one handle;
/// each receive has its own, because each gets its own message.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "verbatim/channel/detail/slots.hpp"

namespace verbatim::detail {

template <class T>
inline constexpr bool kIsReceive = false;
template <std::size_t N>
inline constexpr bool kIsReceive<Receive<N>> = true;
template <class T>
concept ReceiveWork = kIsReceive<T>;
/// The channel's queue that takes such work.
template <class Work>
inline constexpr OperationQueue ChannelCore::* kQueueOf =
    kIsReceive<Work> ? &ChannelCore::receives : &ChannelCore::sends;

/// Whether no option was given, as in most requests: one compare for all of them (g++: -7).
VERBATIM_HOT bool are_plain(const SendOptions& options) noexcept {
  // After the value of the immediate: whether there is one, the three flags, and nothing else.
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
/// Out of line, to leave the registers to requests without options (g++: -2).
template <SendWork Work>
[[gnu::noinline]] bool encode_chosen(const ChannelCore& channel, const Work& work,
                                     std::uint32_t end, ibv_send_wr& wr) noexcept {
  return encode_chained(channel, work, work.options, end, wr);
}

/// Posts all of `works`, or nothing if they do not all fit. Calls `look` with each of them first.
template <SendWork Work, std::invocable<const Work&> Look>
Ticket post_batch(ChannelCore& channel, std::span<const Work> works, Post how, Look look) {
  if (works.empty()) [[unlikely]]
    return channel.refuse_batch(channel.sends, 0, how);
  [[maybe_unused]] const Entry entry{channel, how.where};
  const std::uint32_t end = channel.end_of_message.load(std::memory_order_acquire);
  Slot* const first = channel.sends.free;
  Slot* slot = first;
  ibv_send_wr* wr = channel.batch_requests;
  const Work* work = works.data();
  const Work* const last = work + works.size() - 1;
  // The slots stay in the free list until the device has everything: changes to them do no harm
  // there.
  for (;; ++work, ++wr, slot = slot->next) {
    look(*work);
    if (slot == nullptr) [[unlikely]]
      return channel.refuse_batch(channel.sends, static_cast<std::size_t>(last - work) + 1, how);
    // Options that are known at compile time fold away.
    using Options = decltype(work->options);
    const bool taken = are_plain(work->options)
                           ? encode_chained(channel, *work, Options{}, end, *wr)
                           : encode_chosen(channel, *work, end, *wr);
    if (!taken) [[unlikely]]
      return channel.refuse_send(shape(*work, work->options), how);
    slot->state = SlotState::chained;
    slot->takes_receive = takes_receive(*work);
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

/// Posts a receive for each of `works`, or none if they do not all fit. Calls `look` with each of
/// them first, and `take` with the ticket of each, in order.
template <std::size_t N, std::invocable<const Receive<N>&> Look, std::invocable<Ticket> Take>
void post_receives(ChannelCore& channel, std::span<const Receive<N>> works, Post how, Look look,
                   Take take) {
  if (works.empty()) return;
  for (const Receive<N>& work : works) look(work);
  const auto refuse_all = [&](auto refuse) {
    for (std::size_t i = 0; i < works.size(); ++i) take(refuse());
  };
  const std::uint32_t end = channel.end_of_elements.load(std::memory_order_acquire);
  Slot* const first = channel.receives.free;
  Slot* slot = first;
  for (std::size_t i = 0; i < works.size(); ++i, slot = slot->next) {
    if (slot == nullptr) [[unlikely]]
      return refuse_all(
          [&] { return channel.refuse_batch(channel.receives, works.size() - i, how); });
    if (works[i].into.size() >= end) [[unlikely]]
      return refuse_all([&] { return channel.refuse_receive(works[i].into.size(), how); });
    ibv_recv_wr& wr = channel.receive_requests[i];
    encode_into(wr, works[i], 0);
    wr.wr_id = slot->id;
  }
  if constexpr (dma::kModelled) {
    slot = first;
    for (const Receive<N>& work : works) {
      take_off(channel.receives, *slot, work, how.where);
      slot = slot->next;
    }
  }
  const auto [accepted, error] = channel.finish_receives(works.size(), how);
  slot = first;
  for (std::size_t i = 0; i < accepted; ++i) {
    Slot* const next =
        slot->next;  // `take` may drop the slot, and then another operation may have it.
    take(Ticket{slot, slot->id});
    slot = next;
  }
  for (std::size_t i = accepted; i < works.size(); ++i) take(channel.park_refusal(error, how));
}

}  // namespace verbatim::detail
