// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/channel/rendezvous.hpp"

#include <array>
#include <utility>
#include <vector>

#include "channel/frame.hpp"
#include "channel/tcp.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {

/// The connection stays with the channel.
struct detail::Rendezvous {
  static void keep(Channel& channel, FileDescriptor link) noexcept {
    channel.state_->link = std::move(link);
  }
};

namespace {

using detail::BoundedCall;
using detail::FrameKind;

/// A name to listen on is one of this machine: it is known at once, or not at all.
constexpr std::chrono::seconds kLocalLookup{5};

/// Both sides do the same: nobody dictates, and nobody waits for the other to begin.
Result<Channel> meet(const ProtectionDomain& domain, detail::FileDescriptor link,
                     const ChannelOptions& options, const PrepareChannel& prepare,
                     const BoundedCall& call) {
  auto prepared = VERBATIM_TRY(PreparedChannel::create(domain, options));
  if (prepare) VERBATIM_TRY(prepare(prepared));

  std::array<std::byte, detail::kMaxFrameBytes> record{};
  const std::vector<std::byte> ours = encode(prepared.endpoint());
  VERBATIM_TRY(detail::send_frame(link.get(), FrameKind::endpoint, ours, call));
  const std::size_t size =
      VERBATIM_TRY(detail::receive_frame(link.get(), FrameKind::endpoint, record, call));
  const Endpoint peer = VERBATIM_TRY(decode_endpoint(std::span{record}.first(size)));
  Channel channel = VERBATIM_TRY(std::move(prepared).connect(peer));

  // From here on the peer's messages are taken; ours may go when its record has come.
  ReadyRecord theirs{};
  VERBATIM_TRY(detail::send_frame(link.get(), FrameKind::ready, channel.ready_record(), call));
  const std::size_t ready =
      VERBATIM_TRY(detail::receive_frame(link.get(), FrameKind::ready, theirs, call));
  VERBATIM_TRY(channel.confirm(std::span{theirs}.first(ready)));
  detail::Rendezvous::keep(channel, std::move(link));
  return channel;
}

}  // namespace

Listener::Listener(ProtectionDomain domain, ListenOptions options, detail::FileDescriptor socket)
    : domain_(std::move(domain)), options_(std::move(options)), socket_(std::move(socket)) {}

Result<Listener> Listener::open(const ProtectionDomain& domain, std::string_view address,
                                ListenOptions options) {
  const BoundedCall call{.operation = "Listener::open",
                         .deadline = detail::deadline_after(kLocalLookup)};
  const auto where = VERBATIM_TRY(detail::parse_host_port(address, call.operation));
  const auto addresses = VERBATIM_TRY(detail::resolve_local(where, call));
  auto socket = VERBATIM_TRY(detail::listen_tcp(addresses, options.backlog, call));
  const auto local = VERBATIM_TRY(detail::local_address(socket.get(), call.operation));
  Listener listener{domain, std::move(options), std::move(socket)};
  listener.port_ = local.port();
  listener.address_ = detail::to_string(local);
  return listener;
}

Result<Channel> Listener::accept(Timeout limit) const {
  auto link = VERBATIM_TRY(detail::accept_tcp(
      socket_.get(), {.operation = "accept", .deadline = detail::deadline_after(limit)}));
  return meet(
      domain_, std::move(link), options_.channel, options_.prepare,
      {.operation = "accept", .deadline = detail::deadline_after(options_.handshake_timeout)});
}

Result<Channel> dial(const ProtectionDomain& domain, std::string_view address,
                     const DialOptions& options) {
  const BoundedCall call{.operation = "dial", .deadline = detail::deadline_after(options.deadline)};
  const auto where = VERBATIM_TRY(detail::parse_host_port(address, call.operation));
  const auto addresses = VERBATIM_TRY(detail::resolve(where, call));
  auto link = detail::connect_tcp(addresses, call);
  if (!link) return std::unexpected(link.error().with_text(address));
  return meet(domain, *std::move(link), options.channel, options.prepare, call);
}

}  // namespace verbatim
