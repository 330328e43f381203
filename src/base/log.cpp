// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/base/log.hpp"

#include <atomic>

#include "base/uncancelled.hpp"

namespace verbatim {
namespace {
std::atomic<LogSink> current_sink{nullptr};
}  // namespace

LogSink set_log_sink(LogSink sink) noexcept { return current_sink.exchange(sink); }

bool log_enabled() noexcept { return current_sink.load() != nullptr; }

void log(LogLevel level, std::string_view message) noexcept {
  const LogSink sink = current_sink.load();
  if (sink == nullptr) return;
  const Uncancelled here;  // It probably writes to a file.
  sink(level, message);
}

}  // namespace verbatim
