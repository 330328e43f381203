// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/copy.hpp"

#include <cstring>

namespace verbatim::engine {
namespace {

VERBATIM_UNSEEN inline void move_bytes(std::byte* to, const std::byte* from,
                                       std::size_t size) noexcept {
#if defined(VERBATIM_SOFT_HIDDEN) && defined(__x86_64__)
  // Checkers intercept a call of memcpy even from here, but not an instruction.
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
#elif defined(VERBATIM_SOFT_HIDDEN)
  for (std::size_t i = 0; i < size; ++i) const_cast<volatile std::byte*>(to)[i] = from[i];
#else
  std::memcpy(to, from, size);
#endif
}

}  // namespace

VERBATIM_UNSEEN void copy_bytes(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  if (size <= 2 * sizeof(Chunk) && size >= sizeof(Chunk)) {
    // Copies two words that may overlap. A call of memcpy would cost more than the rest of a small
    // message.
    const std::uint64_t first = reinterpret_cast<const Chunk*>(from)->value;
    const std::uint64_t last = reinterpret_cast<const Chunk*>(from + size - sizeof(Chunk))->value;
    reinterpret_cast<Chunk*>(to)->value = first;
    reinterpret_cast<Chunk*>(to + size - sizeof(Chunk))->value = last;
    return;
  }
  move_bytes(to, from, size);
}

VERBATIM_UNSEEN void copy_last_word_last(std::byte* to, const std::byte* from,
                                         std::size_t size) noexcept {
  if (size == sizeof(Chunk)) return publish_word(to, from);
  if (size < sizeof(Chunk)) {
    // Too short for a word: copies byte by byte upwards, so that the last byte is written last.
    for (std::size_t i = 0; i < size; ++i) {
      __atomic_thread_fence(__ATOMIC_RELEASE);
      const_cast<volatile std::byte*>(to)[i] = from[i];
    }
    return;
  }
  const std::size_t before = size - sizeof(Chunk);
  move_bytes(to, from, before);
  publish_word(to + before, from + before);
}

VERBATIM_UNSEEN std::uint64_t atomic_fetch_add(std::byte* word, std::uint64_t add) noexcept {
  return __atomic_fetch_add(reinterpret_cast<std::uint64_t*>(word), add, __ATOMIC_SEQ_CST);
}

VERBATIM_UNSEEN std::uint64_t atomic_compare_swap(std::byte* word, std::uint64_t compare,
                                                  std::uint64_t swap) noexcept {
  __atomic_compare_exchange_n(reinterpret_cast<std::uint64_t*>(word), &compare, swap, false,
                              __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return compare;
}

}  // namespace verbatim::engine
