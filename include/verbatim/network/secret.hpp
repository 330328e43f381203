// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the processes of one job share and nobody else knows: 32 random bytes.
///
/// A process that knows it may join the job, and can read what its sessions carry. It lives as long
/// as the job. The memory is wiped when the object is destroyed, and no log or error shows it.
#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "verbatim/base/error.hpp"

namespace verbatim {

class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  [[nodiscard]] static Secret random();
  /// Exactly 64 hexadecimal digits, else `malformed`; the error does not show them.
  [[nodiscard]] static Result<Secret> from_hex(std::string_view digits);
  /// A file with the digits, and perhaps a line feed. It must belong to this user, with mode 0600
  /// or stricter; else `permission_denied`.
  [[nodiscard]] static Result<Secret> from_file(const std::filesystem::path& file);

  Secret(const Secret&) noexcept = default;
  Secret& operator=(const Secret&) noexcept = default;
  ~Secret();

  /// For a launcher, which passes it on. The string is not wiped.
  [[nodiscard]] std::string to_hex() const;
  [[nodiscard]] std::span<const std::byte, kBytes> bytes() const noexcept { return bytes_; }
  /// Takes constant time.
  friend bool operator==(const Secret& left, const Secret& right) noexcept;

 private:
  Secret() noexcept = default;
  std::array<std::byte, kBytes> bytes_{};
};

}  // namespace verbatim
