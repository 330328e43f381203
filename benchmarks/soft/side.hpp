// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One of the two processes of a measurement: its memory, its queue pair, its peer.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "verbatim/verbatim.hpp"

namespace verbatim::bench {

using Clock = std::chrono::steady_clock;

enum class Role : std::uint8_t { left, right };  ///< Left measures; right answers.
enum class Memory : std::uint8_t { buffer, plain };

[[noreturn]] VERBATIM_COLD void die(std::string_view what);
[[noreturn]] VERBATIM_COLD void die(const Error& error);
/// Takes the result by reference, because copying a Result costs more than posting.
template <class T>
T need(Result<T>&& result) {
  if (!result) [[unlikely]]
    die(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// How many requests may be outstanding: enough to keep any device busy.
constexpr std::uint32_t kDepth = 256;

struct Side {
  static constexpr std::size_t kSkew = 512;
  Role role;
  Memory memory;
  int socket;
  std::vector<std::byte> plain_source;
  std::vector<std::byte> plain_target;
  CompletionQueue sends;
  CompletionQueue receives;
  std::optional<Buffer> buffer;
  std::optional<MemoryRegion> registered;
  SharedRegion target;  ///< The peer writes and reads here.
  QueuePair queue_pair;
  RemoteMemoryRegion remote;  ///< The peer's target.

  /// Not at the same offset in a page as the target. Processors first compare only the low bits of
  /// addresses, and would take a load from one for a load of what was just stored to the other.
  [[nodiscard]] std::span<std::byte> source() {
    return (memory == Memory::buffer ? buffer->bytes() : aligned(plain_source)).subspan(kSkew);
  }
  [[nodiscard]] const MemoryRegion& source_region() const {
    return memory == Memory::buffer ? buffer->region() : *registered;
  }
  [[nodiscard]] GatherElement gather(std::size_t size) {
    return source_region().gather(source().first(size));
  }
  [[nodiscard]] RemoteMemoryRegion remote_bytes(std::size_t size) const {
    return *remote.sub_region(0, size);
  }

  /// Waits until the other process is here, too.
  void meet() const;

  /// Waits for `count` completions, which must be successes.
  void finish(CompletionQueue& queue, std::size_t count) const;

  /// Memory from the allocator, aligned to a page, because process_vm is slower across a page
  /// boundary.
  static std::span<std::byte> aligned(std::vector<std::byte>& memory);
};

/// Opens the software device and connects to the other process over the socket.
[[nodiscard]] Side set_up(Role role, Memory memory, std::size_t bytes, int socket);

/// Byte `i` of `writer`'s messages.
[[nodiscard]] constexpr std::byte pattern(Role writer, std::size_t i) noexcept {
  return static_cast<std::byte>(i * 31 + i / 251 + 7 + static_cast<std::size_t>(writer) * 101);
}
void fill(std::span<std::byte> bytes, Role writer) noexcept;
/// Ends the program unless the bytes are the pattern of `writer`.
void verify(std::span<const std::byte> bytes, Role writer);

}  // namespace verbatim::bench
