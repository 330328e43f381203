// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file An open device: shared by every object created from it, closed by the last of them.
#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "provider/fork_guard.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/provider/provider.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbs/event_reader.hpp"

namespace verbatim::detail {

struct ContextState;
using ContextPtr = std::shared_ptr<ContextState>;

/// Verbs report failure as a positive errno, a negative one, or -1 with errno: one decoder.
[[nodiscard]] inline int os_error_of(int returned) noexcept {
  if (returned > 0) return returned;
  return returned == -1 ? errno : -returned;
}

void log_teardown(const char* operation, int os_error) noexcept;

/// The device's name in the system.
[[nodiscard]] std::string_view name_of(const ibv_context* raw) noexcept;

/// Closes the device when everything else of the context is gone.
struct OpenDevice {
  const Provider& provider;
  ibv_context* raw;
  bool abandoned = false;  ///< In a forked child the device belongs to the parent.
  ~OpenDevice();
};

struct ContextState {
  ContextState(const Provider& table, Device from, ibv_context* context, ContextOptions options);
  ~ContextState();
  ContextState(const ContextState&) = delete;
  ContextState& operator=(const ContextState&) = delete;

  [[nodiscard]] static Result<Context> open(const Provider& table, Device origin,
                                            ibv_device* device, ContextOptions options);
  /// `forked` in a child; every control call checks this first.
  [[nodiscard]] Result<void> usable(const char* operation) const noexcept {
    if (fork.in_child())
      return std::unexpected(Error{.code = Errc::forked, .operation = operation});
    return {};
  }
  [[nodiscard]] Result<Port> query_port(std::uint8_t number) const;
  [[nodiscard]] Result<std::vector<GidEntry>> query_gid_table(std::uint8_t port) const;
  [[nodiscard]] Result<std::vector<PartitionKey>> query_partition_keys(std::uint8_t port) const;

  const Device origin;  // First: its list outlives what was opened from it.
  OpenDevice device;    // Then: closed after everything that uses it.
  const Provider& provider;
  ibv_context* const raw;
  Capabilities capabilities;
  Transport transport;
  Guid guid;
  ForkGuard fork;
  EventReader events;  // Last: its thread ends before the device closes.
};

}  // namespace verbatim::detail
