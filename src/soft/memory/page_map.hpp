// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Which pages of a range are in use. Freeing needs no memory.
///
/// Owns one bit per page. Any thread, one at a time: its MemoryObjects holds the lock (`objects`).
/// Not hot.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace verbatim::engine {

class PageMap {
 public:
  explicit PageMap(std::uint32_t pages) : pages_(pages), words_((pages + 63) / 64) {}

  /// Takes `count` free pages in a row; returns the first.
  [[nodiscard]] std::optional<std::uint32_t> take(std::uint32_t count) noexcept {
    if (count > pages_ - taken_) return std::nullopt;
    // Continues where the last search ended. Pages freed before that point are found after the end
    // was reached.
    auto found = search(next_, pages_, count);
    if (!found) found = search(0, next_, count);
    if (!found) return std::nullopt;
    for (std::uint32_t page = *found; page != *found + count; ++page)
      words_[page / 64] |= std::uint64_t{1} << page % 64;
    taken_ += count;
    next_ = *found + count;
    return found;
  }
  /// False: not all of them were taken, and nothing has changed.
  [[nodiscard]] bool give(std::uint32_t first, std::uint32_t count) noexcept {
    if (first > pages_ || count > pages_ - first) return false;
    for (std::uint32_t page = first; page != first + count; ++page)
      if (!is_taken(page)) return false;
    for (std::uint32_t page = first; page != first + count; ++page)
      words_[page / 64] &= ~(std::uint64_t{1} << page % 64);
    taken_ -= count;
    return true;
  }
  [[nodiscard]] bool is_empty() const noexcept { return taken_ == 0; }

 private:
  [[nodiscard]] bool is_taken(std::uint32_t page) const noexcept {
    return (words_[page / 64] >> page % 64 & 1) != 0;
  }
  [[nodiscard]] std::optional<std::uint32_t> search(std::uint32_t begin, std::uint32_t end,
                                                    std::uint32_t count) const noexcept {
    std::uint32_t run = 0;
    for (std::uint32_t page = begin; page < end;) {
      if (page % 64 == 0 && words_[page / 64] == ~std::uint64_t{0}) {
        run = 0;
        page += 64;
        continue;
      }
      run = is_taken(page) ? 0 : run + 1;
      ++page;
      if (run == count) return page - count;
    }
    return std::nullopt;
  }

  std::uint32_t pages_;
  std::uint32_t taken_ = 0;
  std::uint32_t next_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace verbatim::engine
