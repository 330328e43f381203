// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Every access of the engine to user memory, in one place.
///
/// The engine plays the device: to a sanitizer its accesses are DMA, not the program's, so nothing
/// here is instrumented or intercepted. `VERBATIM_SOFT_PLAIN_COPY` builds it as ordinary code.
#include <cstddef>
#include <cstdint>

namespace verbatim::engine {

/// Copies, in any order of bytes.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t size) noexcept;

/// Copies so that the last 8 bytes become visible last: programs poll them to see that the rest
/// has come.
void copy_last_word_last(std::byte* to, const std::byte* from, std::size_t size) noexcept;

/// The atomics of the verbs, on memory in this address space. They return the old value.
[[nodiscard]] std::uint64_t atomic_fetch_add(std::byte* word, std::uint64_t add) noexcept;
[[nodiscard]] std::uint64_t atomic_compare_swap(std::byte* word, std::uint64_t compare,
                                                std::uint64_t swap) noexcept;

}  // namespace verbatim::engine
