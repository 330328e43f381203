// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How text looks on a stream: with colours where somebody looks at it, without elsewhere.
#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim::cli {

enum class Style : std::uint8_t { plain, bold, faint, good, warning, bad };

class Terminal {
 public:
  /// Asks the system about this descriptor. NO_COLOR and TERM=dumb turn colours off.
  explicit Terminal(int fd) noexcept;

  /// Somebody looks at it, so a line may be drawn over again.
  [[nodiscard]] bool is_live() const noexcept { return is_live_; }
  [[nodiscard]] bool has_colour() const noexcept { return has_colour_; }
  /// Columns now; 80 where nobody looks.
  [[nodiscard]] unsigned columns() const noexcept;
  /// Rows now; 24 where nobody looks.
  [[nodiscard]] unsigned rows() const noexcept;
  /// The text in this style; unchanged where there are no colours.
  [[nodiscard]] std::string paint(Style style, std::string_view text) const;

 private:
  int fd_;
  bool is_live_;
  bool has_colour_;
};

}  // namespace verbatim::cli
