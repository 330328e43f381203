// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The owned operations of a channel: the memory is gone until wait() returns it.
///
///     Pending sending = channel.send(std::move(buffer), {.offset = 8}, {.immediate = 1});
///     Pending receiving = channel.receive(NoMemory{});
///
/// A base of Channel, not for use on its own. An owner of one piece takes a ByteRange; any other is
/// used whole: see owner.hpp. All operations return a Pending: see pending.hpp.
#include <cstddef>
#include <source_location>
#include <utility>
#include <vector>

#include "verbatim/channel/detail/owned_post.hpp"
#include "verbatim/channel/detail/slots.hpp"
#include "verbatim/channel/owner.hpp"
#include "verbatim/channel/pending.hpp"

namespace verbatim {

class OwnedOperations {
  using Where = std::source_location;
  using Post = detail::OwnedPost;

 public:
  template <RangedOwner Owner>
  [[nodiscard]] VERBATIM_HOT Pending<Owner> send(Owner owner, ByteRange range = {},
                                                 SendOptions options = {},
                                                 Where where = Where::current()) {
    return Post::one(*state_, Send{OwnerTraits<Owner>::gather(owner, range, where), options},
                     std::move(owner), where, range.offset);
  }
  template <RangedOwner Owner>
  [[nodiscard]] VERBATIM_HOT Pending<Owner> receive(Owner owner, ByteRange range = {},
                                                    Where where = Where::current()) {
    return Post::receive(*state_, std::move(owner), range, where);
  }
  template <RangedOwner Owner>
  [[nodiscard]] VERBATIM_HOT Pending<Owner> write(Owner owner, WriteTarget to, ByteRange range = {},
                                                  WriteOptions options = {},
                                                  Where where = Where::current()) {
    return Post::one(*state_,
                     Write<1>{OwnerTraits<Owner>::gather(owner, range, where), to, options},
                     std::move(owner), where, range.offset);
  }
  template <RangedOwner Owner>
  [[nodiscard]] VERBATIM_HOT Pending<Owner> read(Owner owner, ReadSource from, ByteRange range = {},
                                                 ReadOptions options = {},
                                                 Where where = Where::current()) {
    static_assert(detail::FillableOwnerRules<Owner>::kKept);
    return Post::one(*state_,
                     Read<1>{OwnerTraits<Owner>::scatter(owner, range, where), from, options},
                     std::move(owner), where, range.offset);
  }

  // Owners that are used whole.
  template <WholeOwner Owner>
  [[nodiscard]] Pending<Owner> send(Owner owner, SendOptions options = {},
                                    Where where = Where::current()) {
    return Post::one(*state_, Send{Post::gathered(owner, where), options}, std::move(owner), where);
  }
  template <WholeOwner Owner>
  [[nodiscard]] Pending<Owner> receive(Owner owner, Where where = Where::current()) {
    return Post::receive(*state_, std::move(owner), {}, where);
  }
  template <WholeOwner Owner>
  [[nodiscard]] Pending<Owner> write(Owner owner, WriteTarget to, WriteOptions options = {},
                                     Where where = Where::current()) {
    return Post::one(*state_, Write{Post::gathered(owner, where), to, options}, std::move(owner),
                     where);
  }
  template <WholeOwner Owner>
  [[nodiscard]] Pending<Owner> read(Owner owner, ReadSource from, ReadOptions options = {},
                                    Where where = Where::current()) {
    static_assert(detail::FillableOwnerRules<Owner>::kKept);
    return Post::one(*state_, Read{Post::scattered(owner, where), from, options}, std::move(owner),
                     where);
  }

  /// One receive per owner, all with one doorbell. If the queue does not have room for all of them,
  /// none is posted: each wait() returns `would_block` and the owner.
  template <MemoryOwner Owner>
  [[nodiscard]] std::vector<Pending<Owner>> receive_each(std::vector<Owner> owners,
                                                         Where where = Where::current()) {
    return Post::receive_each(*state_, std::move(owners), where);
  }

 protected:
  explicit OwnedOperations(detail::ChannelCore& state) noexcept : state_(&state) {}
  ~OwnedOperations() = default;

  // Also for the friends of Channel.
  detail::ChannelCore* state_;  // NOLINT(readability-identifier-naming): as good as private
};

}  // namespace verbatim
