// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Reads a context's async events, acknowledges each at once, and marks its object.
///
/// A queue pair is also marked with the events of its port. Everything that a connection can learn
/// is thus in one word, and costs one load.
///
/// Objects enter the registry when created and leave it before they are destroyed. The reader marks
/// an event before it acknowledges it. Until then the device keeps the object from being destroyed,
/// so the address in the event cannot belong to a new object.
#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/provider/provider.hpp"
#include "verbatim/verbs/device.hpp"
#include "verbatim/verbs/events.hpp"

namespace verbatim::detail {

using EventMarks = std::atomic<std::uint32_t>;

/// Where the events of an object are marked.
struct EventSubject {
  EventMarks* marks;
  std::uint8_t port = 0;  ///< Also mark the events of this port; 0: none.
};

class EventReader {
 public:
  EventReader(const Provider& provider, ibv_context* context, ContextOptions options);
  ~EventReader();
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;

  void add(const void* object, EventSubject subject);
  void remove(const void* object) noexcept;

  /// `event_fd`, an eventfd, becomes readable when anything was marked.
  void watch(int event_fd);
  void unwatch(int event_fd) noexcept;

  /// Starts the thread if a thread is to read events and it does not run yet.
  [[nodiscard]] Result<void> start();
  /// Reads waiting events; never blocks. Afterwards all events raised before are marked, including
  /// those that another thread was reading.
  Result<std::size_t> dispatch();
  /// Events of the device and its ports.
  [[nodiscard]] EventFlags device_events() const noexcept {
    return EventFlags::from_bits(device_marks_.load());
  }
  /// The thread is the parent's: a forked child must not join it.
  void abandon_thread() noexcept;

 private:
  void run();
  /// Marks and acknowledges.
  AsyncEvent take(ibv_async_event& event);
  void mark(const void* object, EventType type);
  void mark_device(EventType type) noexcept;
  /// Also marks the device, which collects the events of its ports.
  void mark_port(std::uint8_t port, EventType type) noexcept;
  void tell_watchers() noexcept;  ///< Requires the lock.

  const Provider& provider_;
  ibv_context* context_;
  ContextOptions options_;
  EventMarks device_marks_{0};
  std::mutex reading_;  ///< From reading an event until it is marked.
  std::mutex mutex_;    ///< Guards the registry.
  std::unordered_map<const void*, EventSubject> objects_;
  std::vector<int> watchers_;
  int stop_fd_ = -1;
  std::unique_ptr<std::thread> thread_;
};

}  // namespace verbatim::detail
