// SPDX-License-Identifier: MIT OR Apache-2.0
#include "side.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace verbatim::bench {
namespace {

constexpr std::size_t kPage = 4096;

/// Sends our record to the other process and returns the record of that process.
std::vector<std::byte> trade(int socket, std::span<const std::byte> mine) {
  if (send(socket, mine.data(), mine.size(), MSG_NOSIGNAL) < 0) die("the other process is gone");
  std::vector<std::byte> theirs(1024);
  const ssize_t size = recv(socket, theirs.data(), theirs.size(), 0);
  if (size <= 0) die("the other process is gone");
  theirs.resize(static_cast<std::size_t>(size));
  return theirs;
}

}  // namespace

void die(std::string_view what) {
  std::fprintf(stderr, "soft_driver: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}
void die(const Error& error) { die(explain(error)); }

std::span<std::byte> Side::aligned(std::vector<std::byte>& memory) {
  void* start = memory.data();
  std::size_t room = memory.size();
  if (std::align(kPage, 1, start, room) == nullptr) die("no aligned memory");
  return {static_cast<std::byte*>(start), memory.size() - kPage};
}

void Side::meet() const {
  const std::array<std::byte, 1> here{};
  static_cast<void>(trade(socket, here));
}

void Side::finish(CompletionQueue& queue, std::size_t count) const {
  std::array<Completion, 32> done;
  while (count > 0) {
    const std::size_t got = need(queue.poll(std::span{done}.first(std::min(count, done.size()))));
    for (std::size_t i = 0; i < got; ++i)
      if (!done[i].ok()) [[unlikely]]
        die(to_string(done[i].error()));
    count -= got;
  }
}

Side set_up(Role role, Memory memory, std::size_t bytes, int socket) {
  constexpr AccessFlags kRights = Access::remote_read | Access::remote_write;
  auto devices = need(list_devices(soft_provider()));
  if (devices.empty()) die("there is no software device");
  auto context = need(devices.at(0).open());
  auto domain = need(context.allocate_domain());
  auto sends = need(context.create_completion_queue({.depth = kDepth}));
  auto receives = need(context.create_completion_queue({.depth = kDepth}));
  const std::size_t room = memory == Memory::plain ? bytes + kPage : 0;
  std::vector<std::byte> plain_source(room);
  std::vector<std::byte> plain_target(room);
  std::optional<Buffer> buffer;
  std::optional<MemoryRegion> registered;
  if (memory == Memory::buffer) {
    buffer = need(domain.allocate(bytes));
  } else {
    registered = need(domain.register_local(Side::aligned(plain_source)));
  }
  SharedRegion target = memory == Memory::buffer
                            ? need(domain.allocate_shared(bytes, kRights))
                            : need(domain.register_shared(Side::aligned(plain_target), kRights));
  auto prepared = need(QueuePair::prepare({.domain = domain,
                                           .send_completions = sends,
                                           .receive_completions = receives,
                                           .access = kRights,
                                           .max_send_requests = kDepth,
                                           .max_receive_requests = kDepth}));
  const auto peer = need(decode_endpoint(trade(socket, encode(prepared.endpoint()))));
  auto queue_pair = need(std::move(prepared).connect(peer));
  const auto remote = need(decode_remote_memory(trade(socket, encode(target.remote()))));
  return {role,
          memory,
          socket,
          std::move(plain_source),
          std::move(plain_target),
          std::move(sends),
          std::move(receives),
          std::move(buffer),
          std::move(registered),
          std::move(target),
          std::move(queue_pair),
          remote};
}

void fill(std::span<std::byte> bytes, Role writer) noexcept {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(writer, i);
}

void verify(std::span<const std::byte> bytes, Role writer) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != pattern(writer, i)) die("byte " + std::to_string(i) + " is not what was sent");
}

}  // namespace verbatim::bench
