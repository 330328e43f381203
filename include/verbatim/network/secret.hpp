// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the processes of one job share, and nobody else knows: 32 random bytes.
///
/// Who knows it may join the job, and reads what its sessions carry. It lives as long as the job.
/// The memory is wiped when the object is destroyed, and no log or error shows it.
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
  /// A file with the digits, and perhaps a line feed. One that others than our user could have
  /// written or can read (mode 0600 or stricter, and ours) is `permission_denied`.
  [[nodiscard]] static Result<Secret> from_file(const std::filesystem::path& file);

  Secret(const Secret&) noexcept = default;
  Secret& operator=(const Secret&) noexcept = default;
  ~Secret();

  /// For a launcher, which hands it on. The string is not wiped.
  [[nodiscard]] std::string to_hex() const;
  [[nodiscard]] std::span<const std::byte, kBytes> bytes() const noexcept { return bytes_; }
  /// Takes the same time whatever differs.
  friend bool operator==(const Secret& left, const Secret& right) noexcept;

 private:
  Secret() noexcept = default;
  std::array<std::byte, kBytes> bytes_{};
};

}  // namespace verbatim
