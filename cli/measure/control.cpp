// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/control.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <nlohmann/json.hpp>

#include "channel/socket_address.hpp"
#include "channel/tcp.hpp"
#include "measure/failure.hpp"
#include "measure/interrupt.hpp"

namespace verbatim::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kBacklog = 16;
constexpr const char* kOperation = "measure";

/// The value, or the error in the words of this program.
template <class T>
T expect(Result<T>&& result) {
  if (result) {
    if constexpr (std::is_void_v<T>)
      return;
    else
      return *std::move(result);
  }
  switch (result.error().code) {
    case Errc::cancelled: throw Interrupted{};
    case Errc::timed_out: throw Failure{"the other end does not answer"};
    case Errc::closed: throw Failure{"the other end is gone"};
    case Errc::malformed:
    case Errc::limit_exceeded: throw Failure{"the other end talks something else"};
    default: throw Failure{"the other end is gone: " + to_string(result.error())};
  }
}

}  // namespace

Control::Control(verbatim::detail::PrivateDescriptor socket) noexcept
    : stream_(std::move(socket), &is_interrupted) {}

void Control::send(const nlohmann::json& record, Limit limit) {
  expect(stream_.write(record, Clock::now() + limit));
}

nlohmann::json Control::receive(Limit limit) {
  auto record = expect(stream_.read(Clock::now() + limit));
  if (const auto error = record.find("error"); error != record.end())
    throw Failure{"the other end says: " +
                  (error->is_string() ? error->get<std::string>() : error->dump())};
  return record;
}

bool Control::has_ended(Limit limit) const {
  return expect(stream_.has_ended(Clock::now() + limit));
}

Control connect_to(const std::string& address, Control::Limit limit) {
  const verbatim::detail::BoundedCall call{kOperation, Clock::now() + limit};
  const auto where = need(verbatim::detail::parse_host_port(address, kOperation));
  const auto addresses = need(verbatim::detail::resolve(where, call));
  auto socket = verbatim::detail::connect_to_any(addresses, call);
  if (!socket)
    throw Failure{fmt::format("nobody answers at {}: {}", address, to_string(socket.error()))};
  return Control{*std::move(socket)};
}

ControlListener::ControlListener(const std::string& address) {
  const verbatim::detail::BoundedCall call{kOperation, Clock::now() + std::chrono::seconds{5}};
  const auto where = need(verbatim::detail::parse_host_port(address, kOperation));
  const auto addresses = need(verbatim::detail::resolve_local(where, call));
  auto socket = verbatim::detail::listen_on_any(addresses, kBacklog, call);
  if (!socket)
    throw Failure{fmt::format("cannot listen on {}: {}", address, to_string(socket.error()))};
  socket_ = *std::move(socket);
  address_ = to_string(need(verbatim::detail::local_address(socket_.get(), kOperation)));
}

std::optional<Control> ControlListener::accept(Control::Limit limit) {
  pollfd one{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  if (poll(&one, 1, static_cast<int>(ms)) <= 0) return std::nullopt;
  auto client = verbatim::detail::try_accept(socket_.get(), kOperation);
  if (!client || !*client) return std::nullopt;
  return Control{**std::move(client)};
}

}  // namespace verbatim::cli
