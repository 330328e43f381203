// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A peer of a MultiChannel, and work for it.
#include <cstdint>
#include <optional>
#include <utility>

#include "verbatim/channel/owner.hpp"
#include "verbatim/verbs/remote_memory.hpp"
#include "verbatim/verbs/work.hpp"

namespace verbatim {

/// The index that MultiChannel::add() returned. It does not change until that peer is removed.
using PeerIndex = std::uint32_t;

/// Work on borrowed memory, for one peer: `PeerWork{peer, Send{region.gather(x)}}`.
template <class Work>
struct PeerWork {
  PeerIndex peer = 0;
  Work work;
};
template <class Work>
PeerWork(PeerIndex, Work) -> PeerWork<Work>;

// Work on owned memory.
template <MemoryOwner Owner>
struct PeerSend {
  PeerIndex peer = 0;
  Owner buffer;
  ByteRange range{};  ///< For an owner of one piece; any other is used whole. Likewise below.
  SendOptions options{};
};
template <MemoryOwner Owner>
struct PeerWrite {
  PeerIndex peer = 0;
  Owner buffer;
  WriteTarget to;
  ByteRange range{};
  WriteOptions options{};
};
template <MemoryOwner Owner>
struct PeerReceive {
  PeerIndex peer = 0;
  Owner buffer;
  ByteRange range{};
};
template <MemoryOwner Owner>
struct PeerRead {
  PeerIndex peer = 0;
  Owner buffer;
  ReadSource from;
  ByteRange range{};
  ReadOptions options{};
};

/// Memory of a peer, with the peer's index.
struct PeerRemoteMemory {
  PeerIndex peer = 0;
  RemoteMemoryRegion region{};

  /// Like RemoteMemoryRegion::sub_region().
  [[nodiscard]] constexpr std::optional<PeerRemoteMemory> sub_region(
      std::uint64_t offset, std::uint64_t size) const noexcept {
    return of_peer(region.sub_region(offset, size));
  }
  [[nodiscard]] constexpr std::optional<PeerRemoteMemory> sub_region(
      std::uint64_t offset) const noexcept {
    return of_peer(region.sub_region(offset));
  }
  [[nodiscard]] constexpr PeerRemoteMemory sub_region_unchecked(
      std::uint64_t offset) const noexcept {
    return {peer, region.sub_region_unchecked(offset)};
  }

  /// For scatter().
  [[nodiscard]] PeerWork<Write<1>> write(GatherElement from,
                                         WriteOptions options = {}) const noexcept {
    return {peer, {from, region, options}};
  }
  /// For gather().
  [[nodiscard]] PeerWork<Read<1>> read(ScatterElement into,
                                       ReadOptions options = {}) const noexcept {
    return {peer, {std::move(into), region, options}};
  }

  friend bool operator==(const PeerRemoteMemory&, const PeerRemoteMemory&) noexcept = default;

 private:
  [[nodiscard]] constexpr std::optional<PeerRemoteMemory> of_peer(
      const std::optional<RemoteMemoryRegion>& part) const noexcept {
    return part ? std::optional{PeerRemoteMemory{peer, *part}} : std::nullopt;
  }
};

}  // namespace verbatim
