// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/base/log.hpp"

#include <atomic>

namespace verbatim {
namespace {
std::atomic<LogSink> current_sink{nullptr};
}  // namespace

LogSink set_log_sink(LogSink sink) noexcept { return current_sink.exchange(sink); }

bool log_enabled() noexcept { return current_sink.load() != nullptr; }

void log(LogLevel level, std::string_view message) noexcept {
  if (const LogSink sink = current_sink.load()) sink(level, message);
}

}  // namespace verbatim
