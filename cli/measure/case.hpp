// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What two ends measure together. The client chooses it; the server checks it.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::cli {

enum class Verb : std::uint8_t { send, write, read, atomic };
[[nodiscard]] const char* to_string(Verb verb) noexcept;
[[nodiscard]] std::optional<Verb> verb_from(std::string_view name) noexcept;

inline constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
inline constexpr std::uint32_t kMostDepth = 1024;
inline constexpr std::uint32_t kMostQueuePairs = 64;
inline constexpr std::uint32_t kMostBatch = 64;
/// What one end gives to messages at most.
inline constexpr std::uint64_t kMostMemory = std::uint64_t{512} << 20;

struct Case {
  Verb verb = Verb::write;
  std::uint64_t bytes = 8;
  std::uint32_t depth = 64;       ///< Requests outstanding in each queue pair, for bandwidth.
  std::uint32_t queue_pairs = 1;  ///< Messages take turns over them.
  std::uint32_t batch = 1;        ///< Requests for one doorbell, for bandwidth.
  bool inlined = false;           ///< Where the message fits.
  bool sleeps = false;            ///< Wait for events, as ping does; else spin.

  /// Messages of each queue pair that have a place of their own in memory.
  [[nodiscard]] std::uint64_t slots() const noexcept;
  /// From one slot to the next: messages of any size begin at a multiple of 8.
  [[nodiscard]] std::uint64_t pitch() const noexcept { return (bytes + 7) / 8 * 8; }
  [[nodiscard]] std::uint64_t memory() const noexcept { return slots() * pitch() * queue_pairs; }
  /// The end of a message counts: its last word, or its last byte where words do not fill it.
  [[nodiscard]] std::uint64_t count_bytes() const noexcept { return bytes % 8 == 0 ? 8 : 1; }
  /// As much of a number as that holds.
  [[nodiscard]] std::uint64_t count_of(std::uint64_t number) const noexcept {
    return bytes % 8 == 0 ? number : number & 0xff;
  }
  friend bool operator==(const Case&, const Case&) = default;
};

/// What is wrong with it, in a few words; empty if nothing is.
[[nodiscard]] std::string wrong_with(const Case& each);

[[nodiscard]] nlohmann::json to_json(const Case& each);
/// Throws Failure for whatever is not a sound case.
[[nodiscard]] Case case_from(const nlohmann::json& json);

/// "8", "4K", "1M", a list "8,64,4K", or "8-1M": doubled from one to the other. Each is from 1 byte
/// to kMostBytes. Throws Failure.
[[nodiscard]] std::vector<std::uint64_t> sizes_from(const std::string& text);

}  // namespace verbatim::cli
