// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Why a work request failed: exactly what a failed completion says.
#include <cstdint>
#include <string>

#include "verbatim/base/ids.hpp"
#include "verbatim/base/work_status.hpp"

namespace verbatim {

/// Exactly the fields of a failed completion that the specification makes valid.
struct WorkError {
  WorkStatus status{};
  std::uint32_t vendor_code = 0;
  WrId id{};
  QpNumber queue_pair{};
};
/// Status, class, numbers and hint, in one line.
[[nodiscard]] std::string to_string(const WorkError& error);

}  // namespace verbatim
