// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/work_error.hpp"

#include <array>
#include <cstdio>
#include <utility>

namespace verbatim {
namespace {

struct StatusInfo {
  std::string_view name;
  WorkErrorClass error_class;
  std::string_view hint;
};

using enum WorkErrorClass;

/// Indexed by the status: one row per fact, so that no two switches can disagree.
constexpr std::array kStatuses = {
    StatusInfo{"success", unknown, ""},
    StatusInfo{"local length error", local_programming,
               "a message is longer than the receive posted for it, or than the port allows"},
    StatusInfo{"local queue pair operation error", local_programming,
               "the request does not fit the queue pair: its type, state or limits"},
    StatusInfo{"local EE context operation error", local_programming, ""},
    StatusInfo{"local protection error", local_programming,
               "an element lies outside its region, or the region is of another protection domain,"
               " deregistered, or lacks local_write"},
    StatusInfo{"work request flushed", local_resource,
               "the queue pair is in the error state: look at the first request that failed, not"
               " at this one"},
    StatusInfo{"memory window bind error", local_resource,
               "the region does not allow windows, or the window asks for more rights than it"},
    StatusInfo{"bad response", unknown, "the peer answered with an unexpected packet"},
    StatusInfo{"local access error", local_programming,
               "a peer's write arrived for memory that this side did not allow it to write"},
    StatusInfo{"remote invalid request", remote,
               "the message is longer than the peer's receive, or the peer's queue pair does not"
               " allow this operation"},
    StatusInfo{"remote access error", remote,
               "the remote key is stale, the range lies outside the peer's region, or the region"
               " or the peer's queue pair lacks the right"},
    StatusInfo{"remote operation error", remote, "the peer's queue pair failed while answering"},
    StatusInfo{"transport retry counter exceeded", transport,
               "the peer does not answer: it is gone, not connected back, or the path (GID, LID,"
               " MTU, partition) is wrong"},
    StatusInfo{"receiver-not-ready retry counter exceeded", transport,
               "the peer had no receive posted in time: post receives before the peer sends, or"
               " allow more retries"},
    StatusInfo{"local RDD violation", local_programming, ""},
    StatusInfo{"remote invalid reliable-datagram request", remote, ""},
    StatusInfo{"remote aborted", remote, "the peer cancelled the operation"},
    StatusInfo{"invalid EE context number", local_programming, ""},
    StatusInfo{"invalid EE context state", local_programming, ""},
    StatusInfo{"fatal error", fatal, "the device failed: destroy what was made from it, reopen"},
    StatusInfo{"response timeout", timeout, "the peer stopped answering in mid-operation"},
    StatusInfo{"general error", unknown, "the vendor code says more"},
    StatusInfo{"tag matching error", unknown, ""},
    StatusInfo{"tag matching rendezvous incomplete", unknown, ""},
};
static_assert(kStatuses.size() == std::to_underlying(WorkStatus::tag_matching_incomplete) + 1u);

const StatusInfo& info_of(WorkStatus status) noexcept {
  static constexpr StatusInfo kUnknown{"unknown status", unknown, ""};
  const std::size_t index = std::to_underlying(status);
  return index < kStatuses.size() ? kStatuses[index] : kUnknown;  // A newer driver may know more.
}

}  // namespace

std::string_view to_string(WorkStatus status) noexcept { return info_of(status).name; }

std::string_view to_string(WorkErrorClass error_class) noexcept {
  switch (error_class) {
    case local_programming: return "local programming error";
    case local_resource: return "local resource error";
    case remote: return "remote error";
    case transport: return "transport error";
    case timeout: return "timeout";
    case fatal: return "fatal error";
    case unknown: return "unclassified";
  }
  return "unclassified";
}

WorkErrorClass class_of(WorkStatus status) noexcept { return info_of(status).error_class; }

std::string_view hint_of(WorkStatus status) noexcept { return info_of(status).hint; }

std::string to_string(const WorkError& error) {
  std::array<char, 128> numbers{};
  std::snprintf(numbers.data(), numbers.size(),
                "status %u, vendor code 0x%x, request %llu, queue pair 0x%06x",
                static_cast<unsigned>(error.status), error.vendor_code,
                static_cast<unsigned long long>(error.id), static_cast<unsigned>(error.queue_pair));
  std::string line{to_string(error.status)};
  ((line += " (") += to_string(class_of(error.status))) += "; ";
  (line += numbers.data()) += ')';
  if (const auto hint = hint_of(error.status); !hint.empty()) (line += ": ") += hint;
  return line;
}

}  // namespace verbatim
