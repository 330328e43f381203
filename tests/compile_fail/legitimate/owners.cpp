// SPDX-License-Identifier: MIT OR Apache-2.0
// Right uses of owners and of lists of elements. No compiler may warn. Compiled only.
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "verbatim/verbatim.hpp"

using namespace verbatim;

void to_many(std::span<Channel> clients, const std::shared_ptr<const Buffer>& value) {
  std::vector<Pending<std::shared_ptr<const Buffer>>> sending;
  for (Channel& client : clients) sending.push_back(client.send(value));
  for (auto& each : sending) {
    auto [back, result] = each.wait();
    static_cast<void>(back->bytes());
    static_cast<void>(result);
  }
  static_cast<void>(value->bytes());  // Everybody may read it, at any time.
}

std::size_t look_and_reuse(Channel& channel, Buffer buffer) {
  auto done = channel.receive(std::move(buffer), {.offset = 8}).wait();
  const std::size_t size = done.received().size();
  buffer = std::move(done.buffer);
  return size + buffer.size();
}

Result<std::uint32_t> notice(Channel& channel) {
  if (const auto first = channel.receive(NoMemory{}).wait(); !first.result)
    return std::unexpected(first.result.error());
  Pending receiving = channel.receive(NoMemory{});
  const auto done = receiving.wait();
  if (!done.result) return std::unexpected(done.result.error());
  return done.result->immediate().value_or(0);
}

void lists(Channel& channel, const MemoryRegion& region, std::vector<std::byte>& a,
           std::vector<std::byte>& b) {
  const GatherElement g = region.gather(a);
  static_cast<void>(channel.send(std::array{g, g}));
  static_cast<void>(channel.send(std::vector{g, g}));
  static_cast<void>(channel.receive(std::array{region.scatter(a), region.scatter(b)}));
  const auto outcome = channel.scope([&](Scope& scope) {
    const auto receiving =
        scope.post(std::array{Receive{region.scatter(a)}, Receive{region.scatter(b)}});
    static_cast<void>(scope.wait_all(receiving));
  });
  static_cast<void>(outcome);
}

void bound(Channel& channel, Buffer buffer) {
  Completed done = channel.send(std::move(buffer)).wait();
  auto& [inside, result] = done;
  static_cast<void>(inside.bytes());
  const auto& [same, also] = std::as_const(done);
  static_cast<void>(same.bytes());
  const auto use = [&] { return result.has_value() && also.has_value(); };
  static_cast<void>(use());
}
