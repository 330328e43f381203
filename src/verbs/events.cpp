// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/events.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <string>
#include <system_error>

#include "base/library_thread.hpp"
#include "provider/fork_guard.hpp"
#include "verbatim/base/log.hpp"
#include "verbs/event_reader.hpp"

namespace verbatim {

std::string_view to_string(EventType type) noexcept {
  switch (type) {
    case EventType::completion_queue_error: return "completion queue error";
    case EventType::queue_pair_fatal: return "queue pair fatal error";
    case EventType::queue_pair_request_error: return "queue pair request error";
    case EventType::queue_pair_access_error: return "queue pair access error";
    case EventType::communication_established: return "communication established";
    case EventType::send_queue_drained: return "send queue drained";
    case EventType::path_migrated: return "path migrated";
    case EventType::path_migration_error: return "path migration error";
    case EventType::device_fatal: return "device fatal error";
    case EventType::port_active: return "port active";
    case EventType::port_error: return "port error";
    case EventType::lid_change: return "LID change";
    case EventType::partition_key_change: return "partition key change";
    case EventType::subnet_manager_change: return "subnet manager change";
    case EventType::shared_receive_queue_error: return "shared receive queue error";
    case EventType::shared_receive_queue_limit_reached: return "shared receive queue limit reached";
    case EventType::last_receive_reached: return "last receive reached";
    case EventType::client_reregister: return "client reregister";
    case EventType::gid_change: return "GID change";
    case EventType::work_queue_fatal: return "work queue fatal error";
  }
  return "unknown event";
}

std::optional<EventType> path_trouble(EventFlags seen) noexcept {
  for (const EventType type : {EventType::port_error, EventType::gid_change, EventType::lid_change,
                               EventType::partition_key_change})
    if (seen.has(type)) return type;
  return std::nullopt;
}

std::string to_string(EventFlags events) {
  std::string text;
  for (std::uint32_t rest = events.bits; rest != 0; rest &= rest - 1)
    (text += text.empty() ? "" : ", ").append(to_string(EventType{rest & -rest}));
  return text;
}

namespace detail {
namespace {

enum class Subject : std::uint8_t {
  queue_pair,
  completion_queue,
  shared_receive_queue,
  port,
  device,
};

/// Which member of the event's union is set.
Subject subject_of(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_CQ_ERR: return Subject::completion_queue;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: return Subject::queue_pair;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: return Subject::shared_receive_queue;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE: return Subject::port;
    default: return Subject::device;  // The element has no meaning for us.
  }
}

}  // namespace

EventReader::EventReader(const Provider& provider, ibv_context* context, ContextOptions options)
    : provider_(provider), context_(context), options_(std::move(options)) {
  // Non-blocking, because an event may vanish between the wake-up and the read (its object was
  // destroyed).
  const int flags = fcntl(context_->async_fd, F_GETFL);
  if (flags >= 0) fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK);
}

EventReader::~EventReader() {
  if (thread_) {
    const std::uint64_t one = 1;
    if (write(stop_fd_, &one, sizeof one) == sizeof one) thread_->join();
  }
  if (stop_fd_ >= 0) close(stop_fd_);
}

void EventReader::abandon_thread() noexcept {
  // Destroying a joinable std::thread terminates the process, and in this process the thread does
  // not exist.
  [[maybe_unused]] const auto* const left = thread_.release();
}

void EventReader::add(const void* object, EventSubject subject) {
  const std::lock_guard lock{mutex_};
  objects_.insert_or_assign(object, subject);
}

void EventReader::remove(const void* object) noexcept {
  // The thread may have held the lock at the fork, and the child has no thread that could release
  // it.
  if (is_forked(context_)) return;
  const std::lock_guard lock{mutex_};
  objects_.erase(object);
}

void EventReader::watch(int event_fd) {
  const std::lock_guard lock{mutex_};
  watchers_.push_back(event_fd);
}

void EventReader::unwatch(int event_fd) noexcept {
  if (is_forked(context_)) return;
  const std::lock_guard lock{mutex_};
  std::erase(watchers_, event_fd);
}

Result<void> EventReader::start() {
  const std::lock_guard lock{mutex_};
  if (options_.events == EventDelivery::manual || thread_) return {};
  if (stop_fd_ < 0) stop_fd_ = eventfd(0, EFD_CLOEXEC);
  if (stop_fd_ < 0) return std::unexpected(os_failure("eventfd", errno));
  try {
    auto thread = std::make_unique<std::thread>();  // First, to keep a thread once it runs.
    *thread = start_library_thread([this] { run(); });
    thread_ = std::move(thread);
  } catch (const std::system_error& failure) {
    return std::unexpected(os_failure("pthread_create", failure.code().value()));
  }
  return {};
}

void EventReader::run() {
  pollfd fds[] = {{context_->async_fd, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
  for (;;) {
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) break;
    if ((fds[1].revents & POLLIN) != 0) return;
    if ((fds[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) break;
    if ((fds[0].revents & POLLIN) != 0 && !dispatch()) break;
  }
  // The device is gone. Objects that wait for it see the same mark as for the event.
  mark_device(EventType::device_fatal);
  log(LogLevel::error, "async events can no longer be read: the device is gone");
}

Result<std::size_t> EventReader::dispatch() {
  std::size_t count = 0;
  for (;;) {
    ibv_async_event event{};
    AsyncEvent report{};
    {
      const std::lock_guard reading{reading_};
      if (const int failed = provider_.get_async_event(context_, &event); failed != 0) {
        const int os_error = failed > 0 ? failed : errno;
        if (os_error == EAGAIN || os_error == EINTR) return count;
        return std::unexpected(os_failure("ibv_get_async_event", os_error));
      }
      report = take(event);
    }
    if (log_enabled()) log(LogLevel::info, std::string{"event: "}.append(to_string(report.type)));
    if (options_.on_event) options_.on_event(report);
    ++count;
  }
}

AsyncEvent EventReader::take(ibv_async_event& event) {
  AsyncEvent report{.type = EventType{1u << static_cast<unsigned>(event.event_type)}};
  switch (subject_of(event.event_type)) {
    case Subject::queue_pair:
      report.queue_pair = QpNumber{event.element.qp->qp_num};
      mark(event.element.qp, report.type);
      break;
    case Subject::completion_queue: mark(event.element.cq, report.type); break;
    case Subject::shared_receive_queue: mark(event.element.srq, report.type); break;
    case Subject::port:
      report.port = static_cast<std::uint8_t>(event.element.port_num);
      mark_port(report.port, report.type);
      break;
    case Subject::device: mark_device(report.type); break;
  }
  provider_.ack_async_event(&event);
  return report;
}

void EventReader::mark(const void* object, EventType type) {
  const std::lock_guard lock{mutex_};
  if (const auto found = objects_.find(object); found != objects_.end())
    found->second.marks->fetch_or(std::to_underlying(type));
  tell_watchers();
}

void EventReader::mark_device(EventType type) noexcept {
  device_marks_.fetch_or(std::to_underlying(type));
  const std::lock_guard lock{mutex_};
  tell_watchers();
}

void EventReader::mark_port(std::uint8_t port, EventType type) noexcept {
  device_marks_.fetch_or(std::to_underlying(type));
  const std::lock_guard lock{mutex_};
  for (const auto& [object, subject] : objects_)
    if (port != 0 && subject.port == port) subject.marks->fetch_or(std::to_underlying(type));
  tell_watchers();
}

void EventReader::tell_watchers() noexcept {
  const std::uint64_t one = 1;
  for (const int watcher : watchers_)
    if (write(watcher, &one, sizeof one) < 0) continue;  // Full means readable.
}

}  // namespace detail
}  // namespace verbatim
