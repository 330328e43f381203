// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Asynchronous events: what the device reports outside of completions.
///
/// A library thread, started with the first queue pair, reads the events of a context, or the
/// caller does (see `EventDelivery`). The reader copies and acknowledges each event at once, so
/// destroying an object never waits for an acknowledgement. Then it marks the object that the event
/// concerns (`QueuePair::events()`, `CompletionQueue::events()`, `SharedReceiveQueue::events()`,
/// `Context::events()`). The events of a port mark the context and every queue pair on that port.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "verbatim/base/flags.hpp"
#include "verbatim/base/ids.hpp"

namespace verbatim {

/// Bit n is the verbs' `ibv_event_type` n.
enum class EventType : std::uint32_t {
  completion_queue_error = 1u << 0,
  queue_pair_fatal = 1u << 1,
  queue_pair_request_error = 1u << 2,
  queue_pair_access_error = 1u << 3,
  communication_established = 1u << 4,
  send_queue_drained = 1u << 5,
  path_migrated = 1u << 6,
  path_migration_error = 1u << 7,
  device_fatal = 1u << 8,
  port_active = 1u << 9,
  port_error = 1u << 10,
  lid_change = 1u << 11,
  partition_key_change = 1u << 12,
  subnet_manager_change = 1u << 13,
  shared_receive_queue_error = 1u << 14,
  shared_receive_queue_limit_reached = 1u << 15,
  last_receive_reached = 1u << 16,
  client_reregister = 1u << 17,
  gid_change = 1u << 18,
  work_queue_fatal = 1u << 19,
};
template <>
inline constexpr bool kIsFlag<EventType> = true;
using EventFlags = Flags<EventType>;

[[nodiscard]] std::string_view to_string(EventType type) noexcept;
/// "port error, GID change"; "" for none.
[[nodiscard]] std::string to_string(EventFlags events);

/// Port events after which an existing connection may no longer reach its peer.
inline constexpr EventFlags kPathEvents = EventType::port_error | EventType::lid_change |
                                          EventType::partition_key_change | EventType::gid_change;
/// The one of them that explains a failure best; nothing if none was seen. explain() recognises it
/// by its name, as the text of an error.
[[nodiscard]] std::optional<EventType> path_trouble(EventFlags seen) noexcept;

struct AsyncEvent {
  EventType type{};
  std::uint8_t port = 0;  ///< For port events, else 0.
  QpNumber queue_pair{};  ///< For queue pair events, else 0.
};

/// Who reads the events of a context.
enum class EventDelivery : std::uint8_t {
  thread,  ///< A library thread, started with the first queue pair.
  manual,  ///< The caller: wait for `Context::event_fd()`, then `Context::dispatch_events()`.
};

/// Called after the object was marked, on the thread that reads events: the library's, one in
/// dispatch_events(), or one that resets a queue pair and so reads the remaining events. It must
/// not destroy objects of the context.
using EventHandler = std::function<void(const AsyncEvent&)>;

}  // namespace verbatim
