// SPDX-License-Identifier: MIT OR Apache-2.0
// Right uses of scopes: memory that outlives the scope, wherever it lies. g++ may not take it for
// memory of the closure. Compiled only.
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "verbatim/verbatim.hpp"

using namespace verbatim;

void around_the_closure(Channel& channel, const MemoryRegion& region) {
  std::array<std::byte, 64> bytes{};
  static_cast<void>(
      channel.scope([&](Scope& scope) { scope.post_detached(Send{region.gather(bytes)}); }));
  static_cast<void>(channel.scope([&](Scope& scope) -> Result<void> {
    const Operation receiving = scope.post(Receive{region.scatter(bytes)});
    const auto received = scope.wait(receiving);
    if (!received) return std::unexpected(received.error());
    return {};
  }));
  static_cast<void>(channel.scope(
      [&](Scope& scope) { static_cast<void>(scope.post(Receive{region.scatter(bytes)})); }));
}
void on_the_heap(Channel& channel, const MemoryRegion& region) {
  std::vector<std::byte> bytes(64);
  const auto one = std::make_unique<std::array<std::byte, 8>>();
  static_cast<void>(channel.scope([&](Scope& scope) {
    static_cast<void>(scope.post(Receive{region.scatter(bytes)}));
    scope.post_detached(Send{region.gather(*one)});
  }));
}
void span_in_the_closure(Channel& channel, const MemoryRegion& region, std::span<std::byte> all) {
  static_cast<void>(channel.scope([&](Scope& scope) {
    const std::span<std::byte> first = all.first(8);
    scope.post_detached(Receive{region.scatter(first)});
  }));
}
void list_in_the_closure(Channel& channel, const MemoryRegion& region) {
  std::array<std::byte, 64> bytes{};
  static_cast<void>(channel.scope([&](Scope& scope) {
    const std::array works{Send{region.gather(bytes)}, Send{region.gather(bytes)}};
    static_cast<void>(scope.post(std::span<const Send<1>>{works}));
  }));
  static_cast<void>(channel.scope([&](Scope& scope) {
    const std::array elements{region.gather(bytes), region.gather(bytes)};
    scope.post_detached(Send{elements});
    scope.post_detached(Send{std::span<const GatherElement>{elements}});
    scope.post_detached(send_immediate(7));
  }));
}
void nested(Channel& channel, const MemoryRegion& region) {
  static_cast<void>(channel.scope([&](Scope&) {
    std::array<std::byte, 64> bytes{};
    static_cast<void>(channel.scope([&](Scope& inner) {
      inner.post_detached(Send{region.gather(bytes)});
      static_cast<void>(inner.post(Receive{region.scatter(bytes)}));
    }));
  }));
}
void captured_by_value(Channel& channel, const MemoryRegion& region, std::byte (&raw)[64]) {
  static_cast<void>(channel.scope([kept = std::array<std::byte, 64>{}, &region](Scope& scope) {
    scope.post_detached(Send{region.gather(kept)});
  }));
  static_cast<void>(channel.scope([bytes = std::span{raw}, &region](Scope& scope) {
    scope.post_detached(Receive{region.scatter(bytes)});
  }));
}
void handed_on(Scope& scope, const MemoryRegion& region, std::array<std::byte, 64>& bytes) {
  scope.post_detached(Send{region.gather(bytes)});
}
void handed_on_to(Channel& channel, const MemoryRegion& region) {
  std::array<std::byte, 64> bytes{};
  static_cast<void>(channel.scope([&](Scope& scope) { handed_on(scope, region, bytes); }));
}

struct Session {
  Channel channel;
  MemoryRegion region;
  std::array<std::byte, 64> bytes;

  auto exchange() {
    return channel.scope([this](Scope& scope) {
      static_cast<void>(scope.post(Receive{region.scatter(bytes)}));
      scope.post_detached(Send{region.gather(bytes)});
    });
  }
};
auto exchange(Session& session) { return session.exchange(); }
