// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/channel/rendezvous.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "channel/dialling.hpp"
#include "channel/reception.hpp"
#include "channel/tcp.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {
namespace {

using Clock = std::chrono::steady_clock;

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
  detail::Dialling dialling{domain, address, options};
  VERBATIM_TRY(dialling.look_up());
  while (!VERBATIM_TRY(dialling.step()))
    static_cast<void>(detail::wait_until_ready(dialling.fd(), dialling.wanted(), dialling.due()));
  return std::move(dialling).take();
}

}  // namespace verbatim
