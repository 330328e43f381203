// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Many peers on one Reactor: their channels by index, and calls that reach many of them.
///
///     MultiChannel multi{reactor, domain};
///     auto prepared = VERBATIM_TRY(multi.prepare());    // Exchange endpoint(), connect(), then:
///     const PeerIndex peer = VERBATIM_TRY(multi.add(std::move(channel)));
///     VERBATIM_TRY(multi[peer].send(region.gather(one)));
///     VERBATIM_TRY(multi.multicast(multi.peers(), Send{region.gather(all)}));
///
/// To reach one peer, use its Channel: `multi[peer]`. A bulk call checks all of its peers, posts
/// everything, and then waits for all of it. It names the peers that failed, with the reason; all
/// others have succeeded. A peer that fails or is late ends only its own channel. A peer may be in
/// a list several times. Work for one peer keeps its order; there is no order between peers.
///
/// Ownership: move-only. It owns its channels.
/// Threads:   that of the reactor, which need not run: blocking calls drive the channels, too.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "verbatim/channel/channel.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/prepared_channel.hpp"
#include "verbatim/multi/bulk_error.hpp"
#include "verbatim/multi/detail/bulk.hpp"
#include "verbatim/multi/peer.hpp"
#include "verbatim/multi/peer_scope.hpp"
#include "verbatim/multi/pending_bulk.hpp"
#include "verbatim/reactor/reactor.hpp"
#include "verbatim/verbs/protection_domain.hpp"

namespace verbatim {

struct MultiOptions {
  /// For the channels that prepare() makes. `on` is set for you. The defaults are 16 sends and 16
  /// receives.
  ChannelOptions channel{};
  /// Makes the error for a peer that is not there. Without it: `not_found`.
  std::function<Error(PeerIndex)> absent{};
};

class MultiChannel {
  using Where = std::source_location;

 public:
  MultiChannel(const Reactor& reactor, ProtectionDomain domain, MultiOptions options = {});

  // Peers.
  [[nodiscard]] Result<PreparedChannel> prepare() const;
  /// Uses an index that remove() freed, or the next one. `invalid_argument` if the channel is on
  /// another reactor, or on none: then you keep it.
  [[nodiscard]] Result<PeerIndex> add(Channel&& channel);
  /// The same at a given index; `busy` if a peer has it.
  [[nodiscard]] Result<void> put(PeerIndex peer, Channel&& channel);
  /// Takes the channel out. `not_found`; `busy` inside a scope of this MultiChannel.
  [[nodiscard]] Result<Channel> remove(PeerIndex peer);
  [[nodiscard]] bool contains(PeerIndex peer) const noexcept {
    return detail::has_peer(table_, peer);
  }
  /// Its address does not change until it is removed.
  [[nodiscard]] Channel& operator[](LocatedIndex peer) VERBATIM_LIFETIMEBOUND {
    if (peer.value >= table_.size() || table_[peer.value] == nullptr) [[unlikely]]
      contract_violated("MultiChannel: there is no such peer", peer.value, table_.size(),
                        peer.where);
    return *table_[peer.value];
  }
  /// The number of peers.
  [[nodiscard]] std::size_t size() const noexcept;
  /// All peers, in ascending order.
  [[nodiscard]] std::vector<PeerIndex> peers() const;
  [[nodiscard]] const ProtectionDomain& domain() const noexcept { return domain_; }

  // Blocking. A call waits for room if a queue is full, and posts to the other peers meanwhile.
  /// The same Send or Write to each peer.
  template <SendWork Work>
  [[nodiscard]] VERBATIM_HOT BulkResult multicast(std::span<const PeerIndex> peers,
                                                  const Work& work, Deadline deadline = {},
                                                  Where where = Where::current()) noexcept {
    static_assert(!detail::FillsMemory<Work>,
                  "verbatim: multicast() of work that fills memory: all peers would fill the same");
    return detail::run_bulk("multicast", table_, detail::SameWork<Work>{peers, work}, deadline,
                            where);
  }
  /// Its own work to each peer; an array, vector or span of PeerWork.
  template <std::ranges::contiguous_range Works>
    requires detail::SendWorks<Works>
  [[nodiscard]] BulkResult scatter(const Works& works, Deadline deadline = {},
                                   Where where = Where::current()) noexcept {
    return detail::run_bulk("scatter", table_, detail::own_work(works), deadline, where);
  }
  /// A Receive or Read for each. `out` must have room for all results, and gets them in the order
  /// of `works`; those of failed work are not ok().
  template <std::ranges::contiguous_range Works>
    requires detail::FillWorks<Works>
  [[nodiscard]] BulkResult gather(const Works& works, std::span<Completion> out,
                                  Deadline deadline = {}, Where where = Where::current()) {
    return detail::gather_bulk(table_, detail::own_work(works), out, deadline, where);
  }

  // Owned: the memory is gone until wait() returns it. A peer whose queue is full gets
  // `would_block`; the others are not affected. If the list contains an unknown peer, nothing is
  // posted.
  [[nodiscard]] PendingMulticast<Buffer> multicast(std::span<const PeerIndex> peers, Buffer buffer,
                                                   ByteRange range = {}, SendOptions options = {},
                                                   Where where = Where::current());
  [[nodiscard]] PendingMulticast<std::shared_ptr<const Buffer>> multicast(
      std::span<const PeerIndex> peers, std::shared_ptr<const Buffer> buffer, ByteRange range = {},
      SendOptions options = {}, Where where = Where::current());
  template <MemoryOwner Owner>
  [[nodiscard]] PendingBulk<Owner> scatter(std::vector<PeerSend<Owner>> all,
                                           Where where = Where::current()) {
    return post_owned<Owner>("scatter", all, where, [&](Channel& channel, PeerSend<Owner>& each) {
      if constexpr (RangedOwner<Owner>)
        return channel.send(std::move(each.buffer), each.range, each.options, where);
      else
        return channel.send(std::move(each.buffer), each.options, where);
    });
  }
  template <MemoryOwner Owner>
  [[nodiscard]] PendingBulk<Owner> scatter(std::vector<PeerWrite<Owner>> all,
                                           Where where = Where::current()) {
    return post_owned<Owner>("scatter", all, where, [&](Channel& channel, PeerWrite<Owner>& each) {
      if constexpr (RangedOwner<Owner>)
        return channel.write(std::move(each.buffer), each.to, each.range, each.options, where);
      else
        return channel.write(std::move(each.buffer), each.to, each.options, where);
    });
  }
  template <MemoryOwner Owner>
  [[nodiscard]] PendingBulk<Owner> gather(std::vector<PeerReceive<Owner>> all,
                                          Where where = Where::current()) {
    return post_owned<Owner>("gather", all, where, [&](Channel& channel, PeerReceive<Owner>& each) {
      if constexpr (RangedOwner<Owner>)
        return channel.receive(std::move(each.buffer), each.range, where);
      else
        return channel.receive(std::move(each.buffer), where);
    });
  }
  template <MemoryOwner Owner>
  [[nodiscard]] PendingBulk<Owner> gather(std::vector<PeerRead<Owner>> all,
                                          Where where = Where::current()) {
    return post_owned<Owner>("gather", all, where, [&](Channel& channel, PeerRead<Owner>& each) {
      if constexpr (RangedOwner<Owner>)
        return channel.read(std::move(each.buffer), each.from, each.range, each.options, where);
      else
        return channel.read(std::move(each.buffer), each.from, each.options, where);
    });
  }

  /// Many operations on borrowed memory, with any of the peers. Like Channel::scope(): the closure
  /// takes a PeerScope& and returns nothing, a value, or a Result.
  template <class F>
  [[nodiscard]] auto scope(F&& body, Where where = Where::current()) {
    return detail::ScopeRun::run<PeerScope>(*this, body, false, where);
  }
  /// Like Channel::manual_scope().
  template <class F>
  [[nodiscard]] auto manual_scope(F&& body, Where where = Where::current()) {
    return detail::ScopeRun::run<PeerScope>(*this, body, true, where);
  }

 private:
  friend class PeerScope;

  template <class Owner, class Item, class Post>
  [[nodiscard]] PendingBulk<Owner> post_owned(const char* operation, std::vector<Item>& all,
                                              Where where, Post post) {
    PendingBulk<Owner> pending;
    pending.entries_.reserve(all.size());
    for (const Item& each : all)
      if (!contains(each.peer) && !pending.refused_)
        pending.refused_ = {{detail::no_such_peer(table_, operation, each.peer), where}, each.peer};
    for (Item& each : all)
      pending.entries_.push_back(
          {each.peer, pending.refused_ ? detail::OwnedPost::refused(std::move(each.buffer),
                                                                    *pending.refused_, where)
                                       : post(*table_[each.peer], each)});
    return pending;
  }

  [[nodiscard]] PendingBulk<std::shared_ptr<const Buffer>> send_shared(
      std::span<const PeerIndex> peers, const std::shared_ptr<const Buffer>& buffer,
      ByteRange range, SendOptions options, Where where);

  ProtectionDomain domain_;
  ChannelOptions options_;
  detail::PeerTable table_{};
  std::uint32_t open_scopes_ = 0;
};

}  // namespace verbatim
