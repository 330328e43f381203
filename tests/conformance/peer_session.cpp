// SPDX-License-Identifier: MIT OR Apache-2.0
#include "conformance/peer_session.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/pattern.hpp"

namespace verbatim::test {

namespace {

constexpr std::size_t kMessageBytes = 64 << 10;

[[noreturn]] void socket_failed(const char* call) {
  give_up(std::string{call} + ": " + std::strerror(errno), Where::current());
}

void bound_calls(int fd) {
  const timeval limit{.tv_sec = kPatience.count(), .tv_usec = 0};
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
    socket_failed("setsockopt");
}

int new_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) socket_failed("socket");
  bound_calls(fd);
  return fd;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void send_all(int fd, const void* from, std::size_t bytes, int flags = 0) {
  if (::send(fd, from, bytes, MSG_NOSIGNAL | flags) != static_cast<ssize_t>(bytes))
    socket_failed("send");
}

void receive_all(int fd, void* into, std::size_t bytes) {
  for (auto* to = static_cast<std::byte*>(into); bytes > 0;) {
    const ssize_t count = recv(fd, to, bytes, MSG_WAITALL);
    // A stop of this process interrupts a call that has a time limit.
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ECONNRESET;
    if (count <= 0) socket_failed("recv");
    to += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void require_that(const testing::AssertionResult& holds, Where where = Where::current()) {
  if (!holds) give_up(holds.message(), where);
}

}  // namespace

Link::~Link() {
  if (fd_ >= 0) ::close(fd_);
}

Link Link::connect(std::uint16_t port) {
  Link link{new_socket()};
  const sockaddr_in address = loopback(port);
  if (::connect(link.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    socket_failed("connect");
  return link;
}

void Link::send(std::span<const std::byte> record) {
  const auto length = static_cast<std::uint32_t>(record.size());
  // In one segment with the record: the second of two would wait for a delayed acknowledgement, 40
  // ms each time.
  send_all(fd_, &length, sizeof length, record.empty() ? 0 : MSG_MORE);
  send_all(fd_, record.data(), record.size());
}

std::vector<std::byte> Link::receive() {
  std::uint32_t length = 0;
  receive_all(fd_, &length, sizeof length);
  if (length > 4096) give_up("a record of the peer is too long", Where::current());
  std::vector<std::byte> record(length);
  receive_all(fd_, record.data(), record.size());
  return record;
}

void Link::barrier() {
  const std::byte token{1};
  send({&token, 1});
  static_cast<void>(receive());
}

void Link::wait_for_end() {
  std::byte nothing{};
  static_cast<void>(recv(fd_, &nothing, 1, 0));
}

LinkListener::LinkListener() : fd_(new_socket()) {
  sockaddr_in address = loopback(0);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (bind(fd_, generic, size) != 0 || listen(fd_, 1) != 0) socket_failed("bind");
  if (getsockname(fd_, generic, &size) != 0) socket_failed("getsockname");
  port_ = ntohs(address.sin_port);
}

LinkListener::~LinkListener() { ::close(fd_); }

Link LinkListener::accept() {
  // The time-out for receiving also limits accept().
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) socket_failed("accept");
  bound_calls(fd);
  return Link{fd};
}

Session join(Link& link, std::chrono::milliseconds ack_timeout) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const CompletionQueue sends = completion_queue(domain.context());
  const CompletionQueue receives = completion_queue(domain.context());
  QueuePairOptions options = queue_pair_options(domain, sends, receives);
  options.ack_timeout = require(AckTimeout::at_least(ack_timeout));
  options.max_ack_retries = require(MaxAckRetries::limited(3));
  auto prepared = require(QueuePair::prepare(options));
  ExposedMemory exposed(domain, 2 * kMessageBytes, Access::remote_read | Access::remote_write);

  link.send(encode(prepared.endpoint()));
  const Endpoint peer = require(decode_endpoint(link.receive()));
  link.send(encode(exposed.remote()));
  const RemoteMemoryRegion peer_memory = require(decode_remote_memory(link.receive()));
  QueuePair queue_pair = require(std::move(prepared).connect(peer));
  link.barrier();  // From here on both can receive.
  return {domain, {sends, receives, std::move(queue_pair)}, std::move(exposed), peer_memory};
}

void converse(Session& session, Link& link, unsigned rank) {
  const std::uint64_t ours = settings().seed + 10 * rank;
  const std::uint64_t theirs = settings().seed + 10 * (1 - rank);
  ScatteredMemory source(session.domain, kMessageBytes, 3, ours);
  ScatteredMemory sink(session.domain, kMessageBytes, 2, ours);
  Side& side = session.side;

  side.post(Receive{sink.scatter()}, 1);
  source.fill(ours);
  link.barrier();
  side.post(Send{source.gather()}, 2);
  poll_ok(side.sends);
  poll_ok(side.receives);
  require_that(sink.holds(theirs));

  // A write with immediate notifies the peer that the data is there. The second half of the memory
  // is for the read below.
  side.post(Receive{}, 3);
  source.fill(ours + 1);
  fill(session.exposed.bytes().last(kMessageBytes), ours + 2);
  link.barrier();
  const auto first_half = session.peer_memory.sub_region(0, kMessageBytes).value();
  side.post(Write{source.gather(), first_half, {.immediate = rank}}, 4);
  poll_ok(side.sends);
  if (poll_ok(side.receives).immediate() != 1 - rank)
    give_up("the peer's immediate is wrong", Where::current());
  require_that(holds(session.exposed.bytes().first(kMessageBytes), theirs + 1));

  const auto second_half = session.peer_memory.sub_region(kMessageBytes).value();
  side.post(Read{sink.scatter(), second_half}, 5);
  poll_ok(side.sends);
  require_that(sink.holds(theirs + 2));
  link.barrier();  // The peer may still be reading our memory.
}

int play_peer(std::uint16_t port, const std::string& part) {
  Link link = Link::connect(port);
  if (part == "converse") {
    Session session = join(link);
    converse(session, link, 1);
    return 0;
  }
  const Session session = join(link, kSoonDead);
  link.wait_for_end();
  return 1;
}

}  // namespace verbatim::test
