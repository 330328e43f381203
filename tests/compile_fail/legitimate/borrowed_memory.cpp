// SPDX-License-Identifier: MIT OR Apache-2.0
// Right uses of scopes: memory that outlives the scope, wherever it lies. g++ may not take it for
// memory of the closure. Compiled only.
#include <array>
#include <cstddef>
#include <cstdint>
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

void one_object(Channel& channel, const ProtectionDomain& domain) {
  struct Record {
    std::uint64_t number;
    std::array<char, 8> name;
  };
  Record record{.number = 7, .name = {}};
  const auto region = domain.register_local(record);
  if (!region) return;
  static_cast<void>(channel.send(region->gather(record)));
  static_cast<void>(channel.receive(region->scatter(record.number)));
  static_cast<void>(channel.scope([&](Scope& scope) {
    static_cast<void>(scope.post(Receive{region->scatter(record)}));
    scope.post_detached(Send{region->gather(record.name)});
  }));
}
void lists(QueuePair& queue_pair, const MemoryRegion& region, const RemoteMemoryRegion& remote) {
  std::array<std::byte, 64> bytes{};
  const std::vector<GatherElement> from(3, region.gather(bytes));
  std::vector<ScatterElement> into;
  into.push_back(region.scatter(bytes));
  static_cast<void>(unsafe::post(queue_pair, Send{from}, WrId{1}));
  static_cast<void>(unsafe::post(queue_pair, Write{from, remote}, WrId{2}));
  static_cast<void>(unsafe::post(queue_pair, Read{into, remote, {.fenced = true}}, WrId{3}));
  static_cast<void>(unsafe::post(queue_pair, Receive{into}, WrId{4}));
}
void typed(Buffer& buffer, const RemoteMemoryRegion& remote) {
  struct Slot {
    std::uint64_t sequence = 0;  // Initializers do no harm.
    std::array<std::uint32_t, 2> values{};
  };
  for (Slot& slot : buffer.as<Slot>()) ++slot.sequence;
  static_cast<void>(buffer.as<std::array<char, 16>>().size());
  constexpr auto kRights = Access::remote_read | Access::remote_atomic;
  const auto slots = RemoteSpan<Slot, kRights>::of(remote);
  static_cast<void>(RemoteAtomic::at(slots[3].field(&Slot::sequence)));
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
