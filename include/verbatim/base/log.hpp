// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The library never prints: it hands lines to a sink, which is silent until you set one.
///
/// Only control calls log, each failure once, where it was decided. Destructors, which cannot
/// return an error, log what they could not tear down. At level debug the log gets every verbs
/// object and every channel that is created or destroyed, by name.
#include <cstdint>
#include <string_view>

namespace verbatim {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

/// Called from any thread, possibly at once from several.
using LogSink = void (*)(LogLevel level, std::string_view message) noexcept;

/// Replaces the sink and returns the old one; nullptr is silence. Any thread.
LogSink set_log_sink(LogSink sink) noexcept;

void log(LogLevel level, std::string_view message) noexcept;

/// True when a sink is set: skip building a message nobody reads.
[[nodiscard]] bool log_enabled() noexcept;

}  // namespace verbatim
