// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Posts work on an owner's memory, and makes the handle that keeps the owner.
#include <cstddef>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "verbatim/base/annotations.hpp"
#include "verbatim/channel/detail/batch.hpp"
#include "verbatim/channel/detail/slots.hpp"
#include "verbatim/channel/owner.hpp"
#include "verbatim/channel/pending.hpp"
#include "verbatim/verbs/elements.hpp"

namespace verbatim::detail {

struct OwnedPost {
  using Where = std::source_location;

  template <class Work, class Owner>
  [[nodiscard]] VERBATIM_HOT static Pending<Owner> one(ChannelCore& channel, const Work& work,
                                                       Owner&& owner, Where where,
                                                       std::size_t offset = 0) {
    const Ticket ticket = channel.post(work, {SlotState::flying, where});
    return {channel, ticket, std::forward<Owner>(owner), offset};
  }

  /// A handle without a channel, with the reason.
  template <class Owner>
  [[nodiscard]] static Pending<Owner> refused(Owner&& owner, const Error& why, Where where) {
    return {gone_channel, gone_channel.park_refusal(why, {SlotState::flying, where}),
            std::forward<Owner>(owner), 0};
  }

  /// For owners that are used whole.
  template <WholeOwner Owner>
  [[nodiscard]] static auto gathered(const Owner& owner, Where where) {
    return list_from<GatherElement>(OwnerTraits<Owner>::gather(owner, where));
  }
  template <WholeOwner Owner>
  [[nodiscard]] static auto scattered(Owner& owner, Where where) {
    return list_from<ScatterElement>(OwnerTraits<Owner>::scatter(owner, where));
  }

  template <MemoryOwner Owner>
  [[nodiscard]] VERBATIM_HOT static auto receive_work(Owner& owner, ByteRange range, Where where) {
    static_assert(FillableOwnerRules<Owner>::kKept);
    if constexpr (RangedOwner<Owner>)
      return Receive{OwnerTraits<Owner>::scatter(owner, range, where)};
    else
      return Receive{scattered(owner, where)};
  }
  template <MemoryOwner Owner>
  [[nodiscard]] VERBATIM_HOT static Pending<Owner> receive(ChannelCore& channel, Owner&& owner,
                                                           ByteRange range, Where where) {
    return one(channel, receive_work(owner, range, where), std::forward<Owner>(owner), where,
               range.offset);
  }
  template <MemoryOwner Owner>
  [[nodiscard]] static std::vector<Pending<Owner>> receive_each(ChannelCore& channel,
                                                                std::vector<Owner> owners,
                                                                Where where) {
    std::vector<decltype(receive_work(owners.front(), {}, where))> works;
    std::vector<Pending<Owner>> all;
    works.reserve(owners.size());
    all.reserve(owners.size());
    for (Owner& owner : owners) works.push_back(receive_work(owner, {}, where));
    post_receives(
        channel, std::span{std::as_const(works)}, {SlotState::flying, where}, [](const auto&) {},
        [&](Ticket ticket) {
          all.push_back(Pending<Owner>{channel, ticket, std::move(owners[all.size()]), 0});
        });
    return all;
  }
};

}  // namespace verbatim::detail
