// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/settings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/environment.hpp"

namespace verbatim::engine {
namespace {

struct Choice {
  const char* variable;
  std::array<std::string_view, 3> known;  // Entries may be empty.
  const char* text;
};
constexpr Choice kChoices[] = {
    {"VERBATIM_SOFT", {"0", "1"}, "must be 0 or 1"},
    {"VERBATIM_SOFT_MODE", {"immediate", "deferred"}, "must be immediate or deferred"},
    {"VERBATIM_SOFT_MEMORY", {"mapped", "process", "relay"}, "must be mapped, process or relay"},
    {"VERBATIM_SOFT_LINK", {"ib", "eth"}, "must be ib or eth"},
    {"VERBATIM_SOFT_PTRACE", {"any", "own"}, "must be any or own"},
};

std::optional<std::uint64_t> number(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<void> refused(const char* variable, std::string_view value, const char* known) noexcept {
  return std::unexpected(
      Error{.code = Errc::invalid_argument, .operation = variable, .field = known}.with_text(
          value));
}

}  // namespace

Result<void> check_settings() noexcept {
  for (const Choice& choice : kChoices) {
    const std::string_view value = environment(choice.variable, "");
    if (!value.empty() && std::ranges::find(choice.known, value) == choice.known.end())
      return refused(choice.variable, value, choice.text);
  }
  if (const std::string_view devices = environment("VERBATIM_SOFT_DEVICES", ""); !devices.empty()) {
    const auto count = number(devices);
    if (!count || *count > kMaxDevices)
      return refused("VERBATIM_SOFT_DEVICES", devices, "must be a number from 0 to 8");
  }
  static_assert(kMaxDevices == 8);
  if (const std::string_view seed = environment("VERBATIM_SOFT_SEED", "");
      !seed.empty() && !number(seed))
    return refused("VERBATIM_SOFT_SEED", seed, "must be a number of 64 bits");
  return {};
}

bool are_devices_hidden() noexcept { return environment("VERBATIM_SOFT", "") == "0"; }

std::uint32_t wanted_devices() noexcept {
  const auto count = number(environment("VERBATIM_SOFT_DEVICES", "1"));
  return count && *count <= kMaxDevices ? static_cast<std::uint32_t>(*count) : 1;
}

bool may_be_traced() noexcept { return environment("VERBATIM_SOFT_PTRACE", "") == "any"; }

bool is_tracing_denied() noexcept {
  const int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
  char scope = '0';
  if (fd < 0 || ::read(fd, &scope, 1) != 1) scope = '0';
  if (fd >= 0) close(fd);
  return scope > '1' || (scope == '1' && !may_be_traced());
}

}  // namespace verbatim::engine
