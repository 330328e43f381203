// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The elements of owned operations: of buffers that are about to be given away.
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/verbs/buffer.hpp"

namespace verbatim {

/// Which bytes of a buffer an owned operation uses.
struct ByteRange {
  std::size_t offset = 0;
  std::size_t length = std::dynamic_extent;  ///< Default: to the end.
  [[nodiscard]] bool is_all() const noexcept {
    return length == std::dynamic_extent && offset == 0;
  }
};

namespace detail {

VERBATIM_HOT void check_unseen(const Buffer& buffer, Buffer::Where where) {
  check(static_cast<bool>(buffer), "Channel: the buffer was moved away before", where);
  check(!buffer.is_seen(), "Channel: the buffer is posted while with() looks at it", where);
}
VERBATIM_HOT GatherElement gather(const Buffer& buffer, ByteRange range, Buffer::Where where) {
  check_unseen(buffer, where);
  return range.is_all() ? buffer.gather(where) : buffer.gather(range.offset, range.length, where);
}
VERBATIM_HOT ScatterElement scatter(Buffer& buffer, ByteRange range, Buffer::Where where) {
  check_unseen(buffer, where);
  return range.is_all() ? buffer.scatter(where) : buffer.scatter(range.offset, range.length, where);
}
template <std::size_t N>
std::array<GatherElement, N> gather_all(const std::array<Buffer, N>& buffers, Buffer::Where where) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<GatherElement, N>{gather(buffers[I], {}, where)...};
  }(std::make_index_sequence<N>{});
}
template <std::size_t N>
std::array<ScatterElement, N> scatter_all(std::array<Buffer, N>& buffers, Buffer::Where where) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<ScatterElement, N>{scatter(buffers[I], {}, where)...};
  }(std::make_index_sequence<N>{});
}

}  // namespace detail
}  // namespace verbatim
