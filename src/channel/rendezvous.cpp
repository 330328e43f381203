// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/channel/rendezvous.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "channel/handshake.hpp"
#include "channel/reception.hpp"
#include "channel/tcp.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using detail::BoundedCall;
using detail::Handshake;

Result<std::vector<detail::SocketAddress>> addresses_of(std::string_view text,
                                                        const BoundedCall& call) {
  if (detail::is_unix(text))
    return std::vector{VERBATIM_TRY(detail::parse_unix(text, call.operation))};
  return detail::resolve(VERBATIM_TRY(detail::parse_host_port(text, call.operation)), call);
}

Result<void> drive(Handshake& handshake) {
  while (!VERBATIM_TRY(handshake.step()))
    if (!detail::wait_until_ready(handshake.fd(), handshake.wanted(), handshake.deadline()))
      return std::unexpected(handshake.too_late());
  return {};
}

/// Whether the listener has dropped us for others: it said so, or hung up without a word.
bool may_try_again(const Handshake& handshake, const Error& error) noexcept {
  return error == Errc::busy || (error == Errc::closed && !handshake.has_greeted() &&
                                 std::string_view{error.field} != "refused by the peer");
}

}  // namespace

Listener::Listener(std::unique_ptr<detail::Reception> reception) noexcept
    : reception_(std::move(reception)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::open(const ProtectionDomain& domain, std::string_view address,
                                ListenOptions options) {
  return Listener{VERBATIM_TRY(detail::Reception::open(domain, address, std::move(options)))};
}

Result<std::optional<Connection>> Listener::try_accept() const {
  check(reception_ != nullptr, "Listener: used after it was moved from");
  return reception_->turn();
}

Result<Connection> Listener::accept(Timeout limit) const {
  const auto deadline = detail::deadline_after(limit);
  for (;;) {
    auto came = VERBATIM_TRY(try_accept());
    if (came) return *std::move(came);
    if (!detail::wait_until_ready(fd(), POLLIN, deadline) || Clock::now() >= deadline)
      return std::unexpected(
          Error{.code = Errc::timed_out, .operation = "accept", .field = "connection"});
  }
}

int Listener::fd() const noexcept {
  check(reception_ != nullptr, "Listener: used after it was moved from");
  return reception_->fd();
}
std::uint16_t Listener::port() const noexcept {
  check(reception_ != nullptr, "Listener: used after it was moved from");
  return reception_->local().port();
}
const std::string& Listener::address() const noexcept {
  check(reception_ != nullptr, "Listener: used after it was moved from");
  return reception_->address();
}

Result<Connection> dial(const ProtectionDomain& domain, std::string_view address,
                        const DialOptions& options) {
  const BoundedCall call{.operation = "dial", .deadline = detail::deadline_after(options.deadline)};
  VERBATIM_TRY(detail::check_private_data(options.private_data.size(), call.operation));
  const detail::MeetingTerms terms{.operation = call.operation,
                                   .listens = false,
                                   .domain = domain,
                                   .channel = options.channel,
                                   .prepare = options.prepare,
                                   .admit = options.admit,
                                   .private_data = options.private_data,
                                   .same_user_only = options.same_user_only};
  const auto addresses = VERBATIM_TRY(addresses_of(address, call));
  for (auto pause = 5ms;; pause = std::min(2 * pause, 100ms)) {
    auto socket = detail::connect_to_any(addresses, call);
    if (!socket) return std::unexpected(socket.error().with_text(address));
    const int fd = socket->get();
    Handshake handshake{terms, *std::move(socket), detail::peer_of(fd, std::string{address}),
                        call.deadline};
    const auto met = drive(handshake);
    if (met) return std::move(handshake).take();
    const auto again = Clock::now() + pause;
    if (!may_try_again(handshake, met.error()) || again >= call.deadline)
      return std::unexpected(met.error());
    detail::sleep_until(again);
  }
}

}  // namespace verbatim
