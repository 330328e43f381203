// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Reading a JSON object from an untrusted source: every field is present, of its type and in
/// its range, or the error names it. Nothing throws. Unknown keys are ignored.
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "verbatim/base/error.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {

/// More than any of our records needs; bounds the memory and nesting that a hostile text can cause.
inline constexpr std::size_t kMaxJsonBytes = std::size_t{64} * 1024;

/// A name in JSON and the enumerator it stands for.
template <class E>
struct JsonName {
  E value;
  std::string_view name;
};

class JsonReader {
 public:
  /// `operation` names the decoder in errors; static storage. `object` must outlive the reader.
  JsonReader(const char* operation, const nlohmann::json& object) noexcept
      : operation_(operation), object_(object) {}

  [[nodiscard]] static Result<nlohmann::json> parse(const char* operation, std::string_view text,
                                                    std::size_t max_bytes = kMaxJsonBytes) {
    Error error{.code = Errc::malformed, .operation = operation, .field = "json"};
    error.value = text.size();
    error.limit = max_bytes;
    if (text.size() > max_bytes) return std::unexpected(error.with_text("too long"));
    error.limit = 0;
    auto parsed = nlohmann::json::parse(text, nullptr, false);
    if (parsed.is_discarded()) return std::unexpected(error.with_text("not JSON"));
    if (!parsed.is_object()) return std::unexpected(error.with_text("not an object"));
    return parsed;
  }

  template <std::unsigned_integral T>
  [[nodiscard]] Result<T> number(const char* field, T limit = std::numeric_limits<T>::max()) const {
    const auto* found = VERBATIM_TRY(find(field));
    // "Unsigned" is how the parser stores every non-negative integer that fits 64 bits.
    if (!found->is_number_unsigned()) {
      const bool negative = found->is_number_integer();
      return std::unexpected(wrong(field, negative ? "negative" : not_a_number(*found)));
    }
    const auto value = found->get<std::uint64_t>();
    if (value > limit) return std::unexpected(out_of_range(field, value, limit));
    return static_cast<T>(value);
  }

  [[nodiscard]] Result<bool> boolean(const char* field) const {
    const auto* found = VERBATIM_TRY(find(field));
    if (!found->is_boolean()) return std::unexpected(wrong(field, found->type_name()));
    return found->get<bool>();
  }

  /// Valid as long as the object.
  [[nodiscard]] Result<std::string_view> string(const char* field) const {
    const auto* found = VERBATIM_TRY(find(field));
    if (!found->is_string()) return std::unexpected(wrong(field, found->type_name()));
    return std::string_view{*found->get_ptr<const nlohmann::json::string_t*>()};
  }

  [[nodiscard]] Result<const nlohmann::json*> array(const char* field, std::size_t max_size) const {
    const auto* found = VERBATIM_TRY(find(field));
    if (!found->is_array()) return std::unexpected(wrong(field, found->type_name()));
    if (found->size() > max_size)
      return std::unexpected(out_of_range(field, found->size(), max_size));
    return found;
  }

  template <class E>
  [[nodiscard]] Result<E> name(const char* field, std::span<const JsonName<E>> names) const {
    const auto found = VERBATIM_TRY(string(field));
    for (const auto& each : names)
      if (each.name == found) return each.value;
    return std::unexpected(wrong(field, found));
  }

  /// For a field that may be left out.
  [[nodiscard]] bool has(const char* field) const { return object_.contains(field); }

  /// The field is present, but its value is `found`.
  [[nodiscard]] Error wrong(const char* field, std::string_view found) const noexcept {
    return Error{.code = Errc::malformed, .operation = operation_, .field = field}.with_text(found);
  }
  [[nodiscard]] Error out_of_range(const char* field, std::uint64_t value,
                                   std::uint64_t limit) const noexcept {
    return {.code = Errc::malformed,
            .operation = operation_,
            .field = field,
            .value = value,
            .limit = limit};
  }

 private:
  [[nodiscard]] Result<const nlohmann::json*> find(const char* field) const {
    const auto found = object_.find(field);
    if (found == object_.end()) return std::unexpected(wrong(field, "missing"));
    return &*found;
  }
  static std::string_view not_a_number(const nlohmann::json& found) {
    return found.is_number_float() ? "not a 64-bit integer" : found.type_name();
  }

  const char* operation_;
  const nlohmann::json& object_;
};

template <class E>
[[nodiscard]] std::string_view json_name(E value, std::span<const JsonName<E>> names) noexcept {
  for (const auto& each : names)
    if (each.value == value) return each.name;
  return "";
}

}  // namespace verbatim::detail
