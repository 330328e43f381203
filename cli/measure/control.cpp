// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/control.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
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

/// In steps, so that Ctrl-C is noticed soon.
void await(int fd, short events, Clock::time_point deadline) {
  constexpr auto kStep = std::chrono::milliseconds{100};
  for (;;) {
    if (is_interrupted()) throw Interrupted{};
    if (verbatim::detail::wait_until_ready(fd, events, std::min(deadline, Clock::now() + kStep)))
      return;
    if (Clock::now() >= deadline) throw Failure{"the other end does not answer"};
  }
}

}  // namespace

Control::Control(verbatim::detail::PrivateDescriptor socket) : socket_(std::move(socket)) {
  const int flags = fcntl(socket_.get(), F_GETFL);
  if (flags < 0 || fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) != 0)
    throw Failure{fmt::format("fcntl: {}", std::strerror(errno))};
  const int on = 1;  // Fails on what is not TCP, and does not matter there.
  static_cast<void>(setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

void Control::send(const nlohmann::json& record, Limit limit) {
  const auto deadline = Clock::now() + limit;
  const std::string text = record.dump();
  const std::uint32_t size = htonl(static_cast<std::uint32_t>(text.size()));
  std::string all(sizeof size, '\0');
  std::memcpy(all.data(), &size, sizeof size);
  all += text;
  for (std::size_t put = 0; put < all.size();) {
    const ssize_t some =
        ::send(socket_.get(), all.data() + put, all.size() - put, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (some >= 0)
      put += static_cast<std::size_t>(some);
    else if (errno == EAGAIN || errno == EINTR)
      await(socket_.get(), POLLOUT, deadline);
    else
      throw Failure{fmt::format("the other end is gone: {}", std::strerror(errno))};
  }
}

void Control::read_all(char* to, std::size_t size, Clock::time_point deadline) {
  while (size > 0) {
    const ssize_t got = recv(socket_.get(), to, size, MSG_DONTWAIT);
    if (got == 0) throw Failure{"the other end is gone"};
    if (got > 0) {
      to += got;
      size -= static_cast<std::size_t>(got);
    } else if (errno == EAGAIN || errno == EINTR) {
      await(socket_.get(), POLLIN, deadline);
    } else {
      throw Failure{fmt::format("the other end is gone: {}", std::strerror(errno))};
    }
  }
}

nlohmann::json Control::receive(Limit limit) {
  const auto deadline = Clock::now() + limit;
  std::uint32_t size = 0;
  read_all(reinterpret_cast<char*>(&size), sizeof size, deadline);
  size = ntohl(size);
  if (size > kMostBytes) throw Failure{"the other end talks something else"};
  std::string text(size, '\0');
  read_all(text.data(), text.size(), deadline);
  auto record = nlohmann::json::parse(text, nullptr, false);
  if (!record.is_object()) throw Failure{"the other end talks something else"};
  if (const auto error = record.find("error"); error != record.end())
    throw Failure{"the other end says: " +
                  (error->is_string() ? error->get<std::string>() : error->dump())};
  return record;
}

bool Control::is_readable() const noexcept {
  pollfd one{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return poll(&one, 1, 0) > 0;
}

bool Control::has_ended(Limit limit) {
  await(socket_.get(), POLLIN, Clock::now() + limit);
  char first = 0;
  return recv(socket_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
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
