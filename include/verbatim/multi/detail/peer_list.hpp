// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The peers of a MultiChannel by index, and the lists of peers that calls take.
#include <cstddef>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <vector>

#include "verbatim/channel/channel.hpp"
#include "verbatim/channel/detail/slots.hpp"
#include "verbatim/multi/peer.hpp"
#include "verbatim/reactor/close.hpp"

namespace verbatim::detail {

/// By index; null: no peer. Each channel keeps its address, so that a Channel& stays valid.
struct PeerTable : std::vector<std::unique_ptr<Channel>> {
  std::function<Error(PeerIndex)> absent;  ///< MultiOptions::absent.
};

[[nodiscard]] inline bool has_peer(const PeerTable& table, PeerIndex peer) noexcept {
  return peer < table.size() && table[peer] != nullptr;
}
[[nodiscard]] VERBATIM_HOT ChannelCore& core_of(const PeerTable& table, PeerIndex peer) noexcept {
  return ChannelAccess::unasked(*table[peer]);
}
[[nodiscard]] Error no_such_peer(const PeerTable& table, const char* operation, PeerIndex peer);

/// The peers of a call, with any kind of work.
class PeerList {
 public:
  explicit PeerList(std::span<const PeerIndex> peers) noexcept
      : first_(peers.data()), stride_(sizeof(PeerIndex)), size_(peers.size()) {}
  template <class Work>
  explicit PeerList(std::span<const PeerWork<Work>> works) noexcept
      : first_(works.empty() ? nullptr : &works.front().peer),
        stride_(sizeof(PeerWork<Work>)),
        size_(works.size()) {}
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] PeerIndex operator[](std::size_t index) const noexcept {
    return *reinterpret_cast<const PeerIndex*>(reinterpret_cast<const std::byte*>(first_) +
                                               index * stride_);
  }

 private:
  const PeerIndex* first_;
  std::size_t stride_;
  std::size_t size_;
};

/// The same work for each of the peers.
template <class W>
struct SameWork {
  using Work = W;
  std::span<const PeerIndex> peers;
  Work same;
  [[nodiscard]] std::size_t size() const noexcept { return peers.size(); }
  [[nodiscard]] PeerIndex peer(std::size_t index) const noexcept { return peers[index]; }
  [[nodiscard]] const Work& work(std::size_t) const noexcept { return same; }
  [[nodiscard]] PeerList list() const noexcept { return PeerList{peers}; }
};
/// Its own work for each.
template <class W>
struct OwnWork {
  using Work = W;
  std::span<const PeerWork<Work>> works;
  [[nodiscard]] std::size_t size() const noexcept { return works.size(); }
  [[nodiscard]] PeerIndex peer(std::size_t index) const noexcept { return works[index].peer; }
  [[nodiscard]] const Work& work(std::size_t index) const noexcept { return works[index].work; }
  [[nodiscard]] PeerList list() const noexcept { return PeerList{works}; }
};

template <class T>
inline constexpr bool kIsPeerWork = false;
template <class Work>
inline constexpr bool kIsPeerWork<PeerWork<Work>> = true;
/// Receives, reads and atomics.
template <class Work>
concept FillsMemory = requires(const Work& work) { work.into; };
/// Ranges of PeerWork: for work that reads memory, and for work that fills it.
template <class Range>
concept SendWorks = kIsPeerWork<std::ranges::range_value_t<Range>> &&
                    SendWork<decltype(std::ranges::range_value_t<Range>::work)> &&
                    !FillsMemory<decltype(std::ranges::range_value_t<Range>::work)>;
template <class Range>
concept FillWorks = kIsPeerWork<std::ranges::range_value_t<Range>> &&
                    FillsMemory<decltype(std::ranges::range_value_t<Range>::work)>;

template <std::ranges::contiguous_range Works>
[[nodiscard]] auto own_work(const Works& works) noexcept {
  using Work = decltype(std::ranges::range_value_t<Works>::work);
  return OwnWork<Work>{std::span<const PeerWork<Work>>{works}};
}

}  // namespace verbatim::detail
