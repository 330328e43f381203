// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/base/error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

namespace verbatim {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument: return "invalid argument";
    case Errc::limit_exceeded: return "limit exceeded";
    case Errc::not_found: return "not found";
    case Errc::permission_denied: return "permission denied";
    case Errc::out_of_resources: return "out of resources";
    case Errc::unsupported: return "unsupported";
    case Errc::would_block: return "queue full";
    case Errc::busy: return "busy";
    case Errc::timed_out: return "timed out";
    case Errc::not_ready: return "not ready";
    case Errc::malformed: return "malformed";
    case Errc::incompatible: return "incompatible endpoints";
    case Errc::forked: return "object belongs to the parent of this forked process";
    case Errc::device_failed: return "device failed";
    case Errc::work_failed: return "work failed";
    case Errc::cancelled: return "cancelled";
    case Errc::broken: return "channel broken";
    case Errc::closed: return "channel closed";
    case Errc::stale: return "stale handle";
    case Errc::driver: return "driver error";
  }
  return "unknown error code";
}

Error Error::with_text(std::string_view name) const noexcept {
  Error copy = *this;
  copy.text.fill('\0');
  // One byte stays zero: the text is terminated even when the name is cut.
  const std::size_t length = std::min(name.size(), copy.text.size() - 1);
  std::copy_n(name.begin(), length, copy.text.begin());
  return copy;
}

std::string_view Error::text_view() const noexcept {
  return {text.data(), strnlen(text.data(), text.size())};
}

Errc errc_from_errno(int os_error) noexcept {
  switch (os_error) {
    case EINVAL: return Errc::invalid_argument;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EAGAIN: return Errc::out_of_resources;
    case EACCES:
    case EPERM: return Errc::permission_denied;
    case ENOENT: return Errc::not_found;
    case ENOSYS:
    case EPROTONOSUPPORT:
    case EOPNOTSUPP: return Errc::unsupported;
    case EBUSY: return Errc::busy;
    case ETIMEDOUT: return Errc::timed_out;
    case ENODEV: return Errc::device_failed;
    default: return Errc::driver;
  }
}

Error os_failure(const char* operation, int os_error) noexcept {
  return {.code = errc_from_errno(os_error), .os_error = os_error, .operation = operation};
}

namespace {

/// People write the mode of a file in octal.
std::string number_of(const Error& error) {
  if (!std::string_view{error.field}.ends_with("mode")) return std::to_string(error.value);
  char text[32];
  std::snprintf(text, sizeof text, "%04llo", static_cast<unsigned long long>(error.value));
  return text;
}

}  // namespace

std::string to_string(const Error& error) {
  std::string line = error.operation;
  if (!line.empty()) line += ": ";
  line += to_string(error.code);
  if (const auto name = error.text_view(); !name.empty()) (line += ": ").append(name);
  if (*error.field != '\0') {
    (line += ": ") += error.field;
    // A wrong argument may well be 0, unless it is the text; elsewhere two zeros mean that there is
    // no number to tell.
    if (error.value != 0 || error.limit != 0 ||
        (error == Errc::invalid_argument && error.text_view().empty()))
      (line += ' ') += number_of(error);
    if (error.limit != 0) (line += ", limit ") += std::to_string(error.limit);
  }
  if (error.os_error != 0) {
    ((line += " (") += std::generic_category().message(error.os_error)) += ')';
  }
  return line;
}

}  // namespace verbatim
