// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/work_error.hpp"

#include <array>
#include <cstdio>

namespace verbatim {

std::string to_string(const WorkError& error) {
  std::array<char, 128> numbers{};
  std::snprintf(numbers.data(), numbers.size(),
                "status %u, vendor code 0x%x, request %llu, queue pair 0x%06x",
                static_cast<unsigned>(error.status), error.vendor_code,
                static_cast<unsigned long long>(error.id), static_cast<unsigned>(error.queue_pair));
  std::string line{to_string(error.status)};
  ((line += " (") += to_string(class_of(error.status))) += "; ";
  (line += numbers.data()) += ')';
  if (const auto hint = hint_of(error.status); !hint.empty()) (line += ": ") += hint;
  return line;
}

}  // namespace verbatim
