// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Writing and reading records byte by byte, little-endian on any host.
///
/// The reader trusts nothing: it never reads beyond its span, and a record that ends too early is
/// `malformed` with the name of the missing field.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "verbatim/base/error.hpp"

namespace verbatim::detail {

class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  [[nodiscard]] std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  /// `operation` names the decoder in errors; static storage.
  ByteReader(const char* operation, std::span<const std::byte> bytes) noexcept
      : operation_(operation), size_(bytes.size()), rest_(bytes) {}

  template <std::unsigned_integral T>
  [[nodiscard]] Result<T> get(const char* field) noexcept {
    const auto bytes = get_bytes(field, sizeof(T));
    if (!bytes) return std::unexpected(bytes.error());
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value |= std::to_integer<std::uint64_t>((*bytes)[i]) << (8 * i);
    return static_cast<T>(value);
  }

  /// A number that must not be above `limit`.
  template <std::unsigned_integral T>
  [[nodiscard]] Result<T> get_at_most(const char* field, T limit) noexcept {
    const auto value = get<T>(field);
    if (value && *value > limit) return std::unexpected(malformed(field, *value, limit));
    return value;
  }

  [[nodiscard]] Result<std::span<const std::byte>> get_bytes(const char* field,
                                                             std::size_t count) noexcept {
    // `value` is where the record ends, `limit` where this field would.
    if (count > rest_.size())
      return std::unexpected(malformed(field, size_, size_ - rest_.size() + count));
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  [[nodiscard]] std::size_t remaining() const noexcept { return rest_.size(); }

  [[nodiscard]] Error malformed(const char* field, std::uint64_t value,
                                std::uint64_t limit) const noexcept {
    return {.code = Errc::malformed,
            .operation = operation_,
            .field = field,
            .value = value,
            .limit = limit};
  }

 private:
  const char* operation_;
  std::size_t size_;
  std::span<const std::byte> rest_;
};

}  // namespace verbatim::detail
