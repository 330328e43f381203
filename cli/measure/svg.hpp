// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What was measured, as a picture: latency and bandwidth over the size of the message.
#include <span>
#include <string>
#include <string_view>

#include "measure/report.hpp"

namespace verbatim::cli {

/// A whole SVG document, on white. `title` is any text.
[[nodiscard]] std::string svg_plot(std::span<const Row> rows, std::string_view title);

}  // namespace verbatim::cli
