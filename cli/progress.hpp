// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A line on stderr that says how far it is, where somebody looks at it.
#include <string_view>

#include "terminal.hpp"

namespace verbatim::cli {

class Progress {
 public:
  /// `is_wanted`: else it says nothing.
  explicit Progress(bool is_wanted) noexcept;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  /// `part` of `what` is done, 0 to 1.
  void show(std::string_view what, double part);
  /// The line is gone.
  void clear();

 private:
  Terminal terminal_;
  bool is_live_;
  bool is_shown_ = false;
};

}  // namespace verbatim::cli
