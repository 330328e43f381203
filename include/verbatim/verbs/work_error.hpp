// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Why a work request failed, as far as a failed completion says.
#include <cstdint>
#include <string>

#include "verbatim/base/ids.hpp"
#include "verbatim/base/work_status.hpp"

namespace verbatim {

/// The fields that the specification makes valid in a failed completion, and no others.
struct WorkError {
  WorkStatus status{};
  std::uint32_t vendor_code = 0;
  WrId id{};
  QpNumber queue_pair{};
};
/// Status, class, numbers and hint, in one line.
[[nodiscard]] std::string to_string(const WorkError& error);

}  // namespace verbatim
