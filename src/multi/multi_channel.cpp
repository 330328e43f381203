// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/multi/multi_channel.hpp"

#include <algorithm>
#include <utility>

#include "channel/channel_state.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {
namespace {

/// With many peers, each one usually gets only a few requests at a time.
constexpr std::uint32_t kDepth = 16;

bool is_hole(const std::unique_ptr<Channel>& peer) noexcept { return peer == nullptr; }

}  // namespace

MultiChannel::MultiChannel(const Reactor& reactor, ProtectionDomain domain, MultiOptions options)
    : domain_(std::move(domain)), options_(std::move(options.channel)) {
  options_.on = reactor;
  table_.absent = std::move(options.absent);
  if (!options_.max_sends) options_.max_sends = kDepth;
  const bool receives_are_shared = options_.on.core()->shared_receives != nullptr;
  if (!options_.max_receives && !receives_are_shared) options_.max_receives = kDepth;
}

Result<PreparedChannel> MultiChannel::prepare() const {
  return PreparedChannel::create(domain_, options_);
}

Result<PeerIndex> MultiChannel::add(Channel&& channel) {
  const auto hole = std::ranges::find_if(table_, is_hole);
  const auto peer = static_cast<PeerIndex>(hole - table_.begin());
  VERBATIM_TRY(put(peer, std::move(channel)));
  return peer;
}

Result<void> MultiChannel::put(PeerIndex peer, Channel&& channel) {
  const auto where = std::source_location::current();
  if (detail::whole(detail::ChannelAccess::core(channel, where)).core != options_.on.core())
    return std::unexpected(
        Error{.code = Errc::invalid_argument,
              .operation = "add",
              .field = "channel that is not on the reactor of the MultiChannel"});
  if (contains(peer))
    return std::unexpected(
        Error{.code = Errc::busy, .operation = "put", .field = "peer", .value = peer});
  if (peer >= table_.size()) table_.resize(std::size_t{peer} + 1);
  table_[peer] = std::make_unique<Channel>(std::move(channel));
  return {};
}

Result<Channel> MultiChannel::remove(PeerIndex peer) {
  if (!contains(peer)) return std::unexpected(detail::no_such_peer(table_, "remove", peer));
  if (open_scopes_ != 0)
    return std::unexpected(
        Error{.code = Errc::busy, .operation = "remove", .field = "peer", .value = peer});
  const std::unique_ptr<Channel> taken = std::exchange(table_[peer], nullptr);
  return std::move(*taken);
}

std::size_t MultiChannel::size() const noexcept {
  return table_.size() - static_cast<std::size_t>(std::ranges::count_if(table_, is_hole));
}

std::vector<PeerIndex> MultiChannel::peers() const {
  std::vector<PeerIndex> all;
  for (PeerIndex peer = 0; peer < table_.size(); ++peer)
    if (contains(peer)) all.push_back(peer);
  return all;
}

PendingBulk<std::shared_ptr<const Buffer>> MultiChannel::send_shared(
    std::span<const PeerIndex> peers, const std::shared_ptr<const Buffer>& buffer, ByteRange range,
    SendOptions options, Where where) {
  using Shared = std::shared_ptr<const Buffer>;
  std::vector<PeerSend<Shared>> all;
  all.reserve(peers.size());
  for (const PeerIndex peer : peers) all.push_back({peer, buffer, range, options});
  return post_owned<Shared>("multicast", all, where, [&](Channel& channel, PeerSend<Shared>& each) {
    return channel.send(std::move(each.buffer), each.range, each.options, where);
  });
}

PendingMulticast<Buffer> MultiChannel::multicast(std::span<const PeerIndex> peers, Buffer buffer,
                                                 ByteRange range, SendOptions options,
                                                 Where where) {
  detail::check_unseen(buffer, where);
  PendingMulticast<Buffer> pending;
  pending.buffer_ = std::make_shared<Buffer>(std::move(buffer));
  pending.sends_ = send_shared(peers, pending.buffer_, range, options, where);
  return pending;
}

PendingMulticast<std::shared_ptr<const Buffer>> MultiChannel::multicast(
    std::span<const PeerIndex> peers, std::shared_ptr<const Buffer> buffer, ByteRange range,
    SendOptions options, Where where) {
  PendingMulticast<std::shared_ptr<const Buffer>> pending;
  pending.buffer_ = std::move(buffer);
  pending.sends_ = send_shared(peers, pending.buffer_, range, options, where);
  return pending;
}

namespace detail {

Deadline fixed(ChannelCore& channel, Deadline deadline,
               std::chrono::steady_clock::time_point start) noexcept {
  if (deadline.kind() == Deadline::Kind::own) deadline = Deadline{whole(channel).options.timeout};
  return deadline.kind() == Deadline::Kind::relative ? Deadline{deadline.end(start)} : deadline;
}

void add_failure(BulkResult& result, const PeerError& failure) {
  if (result) result = std::unexpected(BulkError{});
  std::vector<PeerError>& peers = result.error().peers;
  if (std::ranges::find(peers, failure.peer, &PeerError::peer) == peers.end())
    peers.push_back(failure);
}

}  // namespace detail
}  // namespace verbatim
