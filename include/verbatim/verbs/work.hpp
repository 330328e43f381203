// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Work requests as values: each opcode is a struct and a short `encode`.
///
/// `Send{region.gather(x)}`, `Send{std::array{a, b}}`, `Send{span_of_elements}`, or `Send{}` with
/// only an immediate; the others are alike. Elements are held by value (except those of a span), so
/// a request may be kept and posted later. Immediates are in host order.
#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <span>

#include "verbatim/verbs/access.hpp"
#include "verbatim/verbs/address_handle.hpp"
#include "verbatim/verbs/elements.hpp"
#include "verbatim/verbs/remote_memory.hpp"

namespace verbatim {

/// Four bytes beside the data, or none. Not a std::optional: that leaves its value uninitialized,
/// and g++ 12 warns about it in user programs.
class Immediate {
 public:
  constexpr Immediate() noexcept = default;
  constexpr Immediate(std::uint32_t value) noexcept : value_(value), has_value_(1) {}
  [[nodiscard]] constexpr bool has_value() const noexcept { return has_value_ != 0; }
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return has_value_ != 0; }
  /// 0 if there is none.
  [[nodiscard]] constexpr std::uint32_t operator*() const noexcept { return value_; }

 private:
  std::uint32_t value_ = 0;
  std::uint32_t has_value_ = 0;  // Not bool, to have no padding: see detail::are_plain().
};

struct SendOptions {
  Immediate immediate{};   ///< The peer gets it in its completion.
  bool inlined = false;    ///< Copied during the post: the memory is free when the post returns.
  bool fenced = false;     ///< Waits for earlier reads and atomics of this queue pair.
  bool solicited = false;  ///< Wakes a peer that is armed only for solicited completions.
};
using WriteOptions = SendOptions;

struct ReadOptions {
  bool fenced = false;
};

/// Where a Write goes (WriteTarget) or a Read comes from (ReadSource). A RemoteSpan or RemoteRef
/// must have the right; a bare region is trusted, and the peer's device checks it.
template <Access Right>
struct RemoteOperand {
  RemoteMemoryRegion region;
  RemoteOperand(const RemoteMemoryRegion& bare) noexcept : region(bare) {}
  template <class T, AccessFlags Rights>
  RemoteOperand(const RemoteSpan<T, Rights>& span) noexcept : region(span.region()) {
    require<Rights>();
  }
  template <class T, AccessFlags Rights>
  RemoteOperand(const RemoteRef<T, Rights>& object) noexcept : region(object.region()) {
    require<Rights>();
  }

 private:
  template <AccessFlags Rights>
  static constexpr void require() noexcept {
    static_assert(Rights.has(Right) || Right != Access::remote_write,
                  "verbatim: Write to remote memory without Access::remote_write");
    static_assert(Rights.has(Right) || Right != Access::remote_read,
                  "verbatim: Read of remote memory without Access::remote_read");
  }
};
using WriteTarget = RemoteOperand<Access::remote_write>;
using ReadSource = RemoteOperand<Access::remote_read>;

template <std::size_t N>
struct Send {
  ElementList<GatherElement, N> from{};
  SendOptions options{};
};
Send() -> Send<0>;
Send(GatherElement) -> Send<1>;
Send(GatherElement, SendOptions) -> Send<1>;
template <std::size_t N>
Send(std::array<GatherElement, N>) -> Send<N>;
template <std::size_t N>
Send(std::array<GatherElement, N>, SendOptions) -> Send<N>;
Send(std::span<const GatherElement>) -> Send<std::dynamic_extent>;
Send(std::span<const GatherElement>, SendOptions) -> Send<std::dynamic_extent>;
template <std::size_t N>
Send(ElementList<GatherElement, N>, SendOptions) -> Send<N>;

/// A send without data: the immediate is the message.
[[nodiscard]] inline Send<0> send_immediate(std::uint32_t immediate) noexcept {
  return {.options = {.immediate = immediate}};
}

/// A datagram: a send that names its destination. For UD queue pairs.
template <std::size_t N>
struct Datagram {
  ElementList<GatherElement, N> from{};
  const AddressHandle& to;
  QpNumber queue_pair{};
  QueueKey queue_key{};
  SendOptions options{};
};
template <class... Rest>
Datagram(GatherElement, const AddressHandle&, Rest...) -> Datagram<1>;
template <std::size_t N, class... Rest>
Datagram(std::array<GatherElement, N>, const AddressHandle&, Rest...) -> Datagram<N>;
template <class... Rest>
Datagram(std::span<const GatherElement>, const AddressHandle&, Rest...)
    -> Datagram<std::dynamic_extent>;

template <std::size_t N>
struct Receive {
  ElementList<ScatterElement, N> into{};
};
Receive() -> Receive<0>;
Receive(ScatterElement) -> Receive<1>;
template <std::size_t N>
Receive(std::array<ScatterElement, N>) -> Receive<N>;
Receive(std::span<const ScatterElement>) -> Receive<std::dynamic_extent>;
template <std::size_t N>
Receive(ElementList<ScatterElement, N>) -> Receive<N>;

template <std::size_t N>
struct Write {
  ElementList<GatherElement, N> from{};
  WriteTarget to;
  WriteOptions options{};
};
template <class To>
Write(GatherElement, To) -> Write<1>;
template <class To>
Write(GatherElement, To, WriteOptions) -> Write<1>;
template <std::size_t N, class To>
Write(std::array<GatherElement, N>, To) -> Write<N>;
template <std::size_t N, class To>
Write(std::array<GatherElement, N>, To, WriteOptions) -> Write<N>;
template <class To>
Write(std::span<const GatherElement>, To) -> Write<std::dynamic_extent>;
template <class To>
Write(std::span<const GatherElement>, To, WriteOptions) -> Write<std::dynamic_extent>;
template <std::size_t N, class To>
Write(ElementList<GatherElement, N>, To, WriteOptions) -> Write<N>;

template <std::size_t N>
struct Read {
  ElementList<ScatterElement, N> into{};
  ReadSource from;
  ReadOptions options{};
};
template <class From>
Read(ScatterElement, From) -> Read<1>;
template <class From>
Read(ScatterElement, From, ReadOptions) -> Read<1>;
template <std::size_t N, class From>
Read(std::array<ScatterElement, N>, From) -> Read<N>;
template <std::size_t N, class From>
Read(std::array<ScatterElement, N>, From, ReadOptions) -> Read<N>;
template <class From>
Read(std::span<const ScatterElement>, From) -> Read<std::dynamic_extent>;
template <class From>
Read(std::span<const ScatterElement>, From, ReadOptions) -> Read<std::dynamic_extent>;
template <std::size_t N, class From>
Read(ElementList<ScatterElement, N>, From, ReadOptions) -> Read<N>;

/// Writes `swap` if the remote word equals `compare`. The 8-byte element gets the old value, in
/// host order.
struct CompareSwap {
  ScatterElement into;
  RemoteAtomic at;
  std::uint64_t compare = 0;
  std::uint64_t swap = 0;
  ReadOptions options{};
};

/// Adds to the remote word; the 8-byte element gets the old value, in host order.
struct FetchAdd {
  ScatterElement into;
  RemoteAtomic at;
  std::uint64_t add = 0;
  ReadOptions options{};
};

namespace detail {

/// Whether it needs a receive at the peer before it can complete.
template <class Work>
constexpr bool takes_receive(const Work&) noexcept {
  return false;
}
template <std::size_t N>
constexpr bool takes_receive(const Send<N>&) noexcept {
  return true;
}
template <std::size_t N>
constexpr bool takes_receive(const Write<N>& work) noexcept {
  return work.options.immediate.has_value();
}

}  // namespace detail
}  // namespace verbatim
