// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Every access of the engine to user memory, in one place.
///
/// The engine plays the device: to a sanitizer its accesses are DMA, not the program's, so nothing
/// here is instrumented or intercepted. `VERBATIM_SOFT_PLAIN_COPY` builds it as ordinary code.
///
/// Owns nothing; the caller has the right to the memory (access_guard.hpp, reach.hpp). Threads:
/// those that run requests, poll, or serve the relay. No locks. Hot.
#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VERBATIM_SOFT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define VERBATIM_SOFT_SANITIZED 1
#endif
#endif

#if defined(VERBATIM_SOFT_SANITIZED) && !defined(VERBATIM_SOFT_PLAIN_COPY)
#define VERBATIM_SOFT_HIDDEN 1
#endif

// clang instruments atomics even in a no_sanitize function, unless told otherwise.
#if !defined(VERBATIM_SOFT_HIDDEN)
#define VERBATIM_UNSEEN
#elif defined(__clang__)
#define VERBATIM_UNSEEN \
  __attribute__((disable_sanitizer_instrumentation, no_sanitize("undefined"), noinline))
#else
#define VERBATIM_UNSEEN __attribute__((no_sanitize("address", "thread", "undefined"), noinline))
#endif

namespace verbatim::engine {

/// Eight bytes at any address, of any type.
struct [[gnu::packed, gnu::may_alias]] Chunk {
  std::uint64_t value;
};
inline constexpr std::uint32_t kWordBytes = sizeof(Chunk);

/// Copies a word. Release: earlier copies become visible before it. On x86 a plain store, aligned
/// or not.
VERBATIM_UNSEEN inline void publish_word(std::byte* to, const std::byte* from) noexcept {
  __atomic_thread_fence(__ATOMIC_RELEASE);
  reinterpret_cast<volatile Chunk*>(to)->value = reinterpret_cast<const Chunk*>(from)->value;
}

/// Copies, in any order of bytes.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t size) noexcept;

/// Like copy_bytes(), for messages that are usually one word.
inline void copy_small(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  if (size == kWordBytes)
    publish_word(to, from);
  else
    copy_bytes(to, from, size);
}

/// Copies so that the last 8 bytes become visible last: programs poll them to see that the rest has
/// come.
void copy_last_word_last(std::byte* to, const std::byte* from, std::size_t size) noexcept;

/// The atomics of the verbs, on memory in this address space. They return the old value.
[[nodiscard]] std::uint64_t atomic_fetch_add(std::byte* word, std::uint64_t add) noexcept;
[[nodiscard]] std::uint64_t atomic_compare_swap(std::byte* word, std::uint64_t compare,
                                                std::uint64_t swap) noexcept;

}  // namespace verbatim::engine
