// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/base/error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <system_error>

#include "verbatim/base/error_guide.hpp"

namespace verbatim {

Error Error::with_text(std::string_view name) const noexcept {
  Error copy = *this;
  copy.text.fill('\0');
  // The last byte stays zero, so that the text is terminated even if the name is cut.
  const std::size_t length = std::min(name.size(), copy.text.size() - 1);
  std::copy_n(name.begin(), length, copy.text.begin());
  return copy;
}

std::string_view Error::text_view() const noexcept {
  return {text.data(), strnlen(text.data(), text.size())};
}

Errc errc_from_errno(int os_error) noexcept {
  switch (os_error) {
    case EINVAL:
    case ENAMETOOLONG: return Errc::invalid_argument;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOBUFS:
    case EAGAIN: return Errc::out_of_resources;
    case EACCES:
    case EPERM:
    case EROFS: return Errc::permission_denied;
    case ENOENT:
    case ENOTDIR:
    case EADDRNOTAVAIL:
    case ENETUNREACH:
    case EHOSTUNREACH: return Errc::not_found;
    case ENOSYS:
    case EPROTONOSUPPORT:
    case EAFNOSUPPORT:
    case EOPNOTSUPP: return Errc::unsupported;
    case EBUSY:
    case EADDRINUSE: return Errc::busy;
    case ETIMEDOUT: return Errc::timed_out;
    case ENODEV: return Errc::device_failed;
    default: return Errc::driver;
  }
}

Error os_failure(const char* operation, int os_error) noexcept {
  return {.code = errc_from_errno(os_error), .os_error = os_error, .operation = operation};
}

namespace {

/// A magic number is usually readable text.
std::string text_of_magic(std::uint64_t value) {
  std::string text;
  for (std::uint64_t rest = value; rest != 0; rest >>= 8) text += static_cast<char>(rest & 0xff);
  if (std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; }))
    return '"' + text + '"';
  char number[2 + 16 + 1];
  std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(value));
  return number;
}

/// The mode of a file is written in octal.
std::string number_of(const Error& error) {
  if (!std::string_view{error.field}.ends_with("mode")) return std::to_string(error.value);
  char text[32];
  std::snprintf(text, sizeof text, "%04llo", static_cast<unsigned long long>(error.value));
  return text;
}

void add_field(std::string& line, const Error& error) {
  if (*error.field == '\0') return;
  (line += ": ") += error.field;
  if (std::string_view{error.field}.ends_with("magic")) {
    line += ' ' + text_of_magic(error.value) + ", not " + text_of_magic(error.limit);
    return;
  }
  // A wrong argument may well be 0, unless it is a text. For all other errors, two zeros mean that
  // there is no number to show.
  if (error.value != 0 || error.limit != 0 ||
      (error == Errc::invalid_argument && error.text_view().empty()))
    (line += ' ') += number_of(error);
  if (error.limit != 0) (line += ", limit ") += std::to_string(error.limit);
}

/// The numbers of a failed work request are codes, not amounts.
void add_status(std::string& line, const Error& error) {
  char vendor[40] = "";
  if (error.limit != 0)
    std::snprintf(vendor, sizeof vendor, ", vendor code 0x%llx",
                  static_cast<unsigned long long>(error.limit));
  const WorkStatus status = status_of(error);
  (line += ": ") += *error.field != '\0' ? std::string_view{error.field} : to_string(status);
  ((line += " (status ") += std::to_string(error.value)).append(vendor) += ')';
}

}  // namespace

WorkStatus status_of(const Error& error) noexcept {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint8_t>::max();
  return static_cast<WorkStatus>(std::min(error.value, kNone));
}

std::string to_string(const Error& error) {
  std::string line = error.operation;
  if (!line.empty()) line += ": ";
  line += to_string(error.code);
  if (const auto name = error.text_view(); !name.empty()) (line += ": ").append(name);
  if (error == Errc::work_failed)
    add_status(line, error);
  else
    add_field(line, error);
  if (error.os_error != 0) {
    ((line += " (") += std::generic_category().message(error.os_error)) += ')';
  }
  return line;
}

}  // namespace verbatim
