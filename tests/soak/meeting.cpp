// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soak/meeting.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

namespace verbatim::test {
namespace {

[[noreturn]] void failed(const char* what) {
  give_up(std::string{what} + ": " + std::strerror(errno), Where::current());
}

/// In the abstract namespace, so there is no file, and the name goes with its process.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) failed("the name is too long");
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

void bound_calls(int fd) {
  const timeval limit{.tv_sec = kPatience.count(), .tv_usec = 0};
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
    failed("setsockopt");
}

}  // namespace

NamedListener::NamedListener(const std::string& name)
    : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  const auto [address, size] = address_of(name);
  if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), size) != 0) failed("bind");
  if (listen(fd_, 64) != 0) failed("listen");
}

NamedListener::~NamedListener() { ::close(fd_); }

std::shared_ptr<Link> NamedListener::accept() const {
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return {};
  bound_calls(fd);
  return std::make_shared<Link>(fd);
}

std::shared_ptr<Link> connect_to(const std::string& name) {
  auto link = std::make_shared<Link>(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bound_calls(link->fd());
  const auto [address, size] = address_of(name);
  if (connect(link->fd(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    failed("connect");
  return link;
}

Meeting::Meeting(const ProtectionDomain& domain, const std::shared_ptr<Link>& to,
                 const Hello& hello, SharedSink* sink)
    : link(to), talk(domain, *to, hello.seed, Conversation::Checks::all, sink, hello.memory) {
  if (hello.datagrams != 0) datagrams.emplace(domain, *link, hello.seed + 1);
}

std::size_t Meeting::step() {
  if (datagrams) datagrams->step();
  return talk.step();
}

std::uint64_t Meeting::received() const noexcept {
  return talk.received() + (datagrams ? datagrams->received() : 0);
}

void give_way() {
  std::this_thread::sleep_for(std::chrono::microseconds{20});  // wait: other processes have news
}

bool has_gone(const Link& link) {
  pollfd entry{.fd = link.fd(), .events = POLLRDHUP, .revents = 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool has_spoken(const Link& link) {
  char first = 0;
  return recv(link.fd(), &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

}  // namespace verbatim::test
