// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What tests expect of a finding of `verbatim doctor`.
#include <gmock/gmock.h>

#include <string>

#include "finding.hpp"

namespace verbatim::cli {

/// `value` and `fix` are parts of the finding's; an empty `fix` means that there is none.
inline auto found(Severity severity, const std::string& value, const std::string& fix) {
  using testing::Field;
  using testing::HasSubstr;
  return testing::AllOf(
      Field("severity", &Finding::severity, severity),
      Field("value", &Finding::value, HasSubstr(value)),
      Field("fix", &Finding::fix,
            fix.empty() ? testing::Matcher<std::string>(testing::IsEmpty()) : HasSubstr(fix)));
}

}  // namespace verbatim::cli
