// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/dialling.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

using namespace std::chrono_literals;

/// Whether the listener dropped us in favour of others: it said so, or hung up without a message.
bool may_try_again(const Handshake& handshake, const Error& error) noexcept {
  return error == Errc::busy || (error == Errc::closed && !handshake.has_greeted() &&
                                 std::string_view{error.field} != "refused by the peer");
}

}  // namespace

Dialling::Dialling(const ProtectionDomain& domain, std::string_view address,
                   const DialOptions& options)
    : domain_(domain),
      address_(address),
      options_(options),
      call_{.operation = "dial", .deadline = deadline_after(options.deadline)},
      terms_{.operation = call_.operation,
             .listens = false,
             .domain = domain_,
             .channel = options_.channel,
             .prepare = options_.prepare,
             .admit = options_.admit,
             .private_data = options_.private_data,
             .same_user_only = options_.same_user_only} {}

bool Dialling::needs_lookup() const {
  if (is_unix(address_)) return false;
  const auto where = parse_host_port(address_, call_.operation);
  return where && !is_numeric(where->host);
}

Result<void> Dialling::look_up() {
  VERBATIM_TRY(check_private_data(options_.private_data.size(), call_.operation));
  if (is_unix(address_)) {
    addresses_.push_back(VERBATIM_TRY(parse_unix(address_, call_.operation)));
  } else {
    const HostPort where = VERBATIM_TRY(parse_host_port(address_, call_.operation));
    addresses_ = VERBATIM_TRY(resolve(where, call_));
  }
  connecting_.emplace(addresses_, call_);
  return {};
}

Result<bool> Dialling::step() {
  if (!connecting_ && !handshake_) {
    if (Clock::now() < again_) return false;
    connecting_.emplace(addresses_, call_);
  }
  if (connecting_) {
    const auto connected = connecting_->step();
    if (!connected) return std::unexpected(connected.error().with_text(address_));
    if (!*connected) return false;
    PrivateDescriptor socket = connecting_->take();
    connecting_.reset();
    const int fd = socket.get();
    handshake_.emplace(terms_, std::move(socket), peer_of(fd, address_), call_.deadline);
  }
  const auto met = handshake_->step();
  if (met && (*met || Clock::now() < call_.deadline)) return *met;
  const Error error = met ? handshake_->too_late() : met.error();
  const auto again =
      Clock::now() + std::exchange(pause_, std::min<Clock::duration>(2 * pause_, 100ms));
  if (!may_try_again(*handshake_, error) || again >= call_.deadline) return std::unexpected(error);
  handshake_.reset();
  again_ = again;
  return false;
}

int Dialling::fd() const noexcept {
  if (connecting_) return connecting_->fd();
  return handshake_ ? handshake_->fd() : -1;
}

short Dialling::wanted() const noexcept { return handshake_ ? handshake_->wanted() : POLLOUT; }

Dialling::Clock::time_point Dialling::due() const noexcept {
  if (connecting_) return connecting_->due();
  return handshake_ ? call_.deadline : again_;
}

}  // namespace verbatim::detail
