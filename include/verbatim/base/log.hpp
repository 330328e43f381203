// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The library never prints. It passes lines to a sink; without a sink it is silent.
///
/// Only control calls log, and each failure is logged once, where it was detected. Destructors
/// cannot return an error, so they log what they could not tear down. At level debug the log names
/// every verbs object and every channel that is created or destroyed.
#include "verbatim/base/language.hpp"

#include <cstdint>
#include <string_view>

namespace verbatim {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

/// Called from any thread, possibly from several at once.
using LogSink = void (*)(LogLevel level, std::string_view message) noexcept;

/// Replaces the sink and returns the old one; nullptr means silence. Any thread.
LogSink set_log_sink(LogSink sink) noexcept;

void log(LogLevel level, std::string_view message) noexcept;

/// True if a sink is set. If not, skip building the message.
[[nodiscard]] bool log_enabled() noexcept;

}  // namespace verbatim
