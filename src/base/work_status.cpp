// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/base/work_status.hpp"

#include <utility>

#include "verbatim/base/error_guide.hpp"

namespace verbatim {
namespace {

/// Indexed by the status. Each fact is in one row, so that no two places can disagree.
constexpr ErrorGuide kStatuses[] = {
    {"success", "success", "The work was done."},
    {"local_length",
     "local length error",
     "A message does not fit the memory for it.",
     {"the message is longer than the receive posted for it",
      "the request is longer than the port allows"},
     "make receives as long as the longest message, or split the message"},
    {"local_queue_pair_operation",
     "local queue pair operation error",
     "The request does not fit the queue pair.",
     {"queue pairs of this type do not have this operation",
      "the request has more elements or inline bytes than the queue pair allows"},
     "compare the request with QueuePair::type() and limits()"},
    {"local_eec_operation", "local EE context operation error",
     "The request does not fit its end-to-end context, which only reliable datagrams have."},
    {"local_protection",
     "local protection error",
     "The device may not use the local memory of the request.",
     {"the region was deregistered while the request was in flight",
      "an element lies outside its region", "the region belongs to another protection domain",
      "the request writes into the region, which lacks local_write"},
     "keep regions alive until their requests have completed; make elements with gather() and "
     "scatter()"},
    {"flushed",
     "work request flushed",
     "The request was not carried out, because the queue pair is in the error state.",
     {"an earlier request of the queue pair failed", "the queue pair was moved to the error state",
      "the peer disconnected, or its own request failed"},
     "look at the first request that failed, not at this one"},
    {"memory_window_bind",
     "memory window bind error",
     "The memory window could not be bound.",
     {"the region does not allow windows", "the window asks for more rights than its region has"},
     "register the region with the rights that its windows need"},
    {"bad_response",
     "bad response",
     "The peer answered with an unexpected packet.",
     {"the peer's queue pair was reset and reused",
      "the two queue pairs are not connected to each other"},
     "reconnect both sides"},
    {"local_access",
     "local access error",
     "A peer's write arrived for memory that this side did not allow it to write.",
     {"the region lacks remote_write", "the queue pair was created without that access"},
     "grant the right on this side, or correct the peer's address and key"},
    {"remote_invalid_request",
     "remote invalid request",
     "The peer's device refuses this kind of request.",
     {"the message is longer than the peer's receive",
      "the peer's queue pair does not allow this operation (its access flags)",
      "there are more reads or atomics in flight than the peer can serve"},
     "make the peer's receive longer, or give its queue pair the access"},
    {"remote_access",
     "remote access error",
     "The peer's device refuses access to its memory.",
     {"the remote key is stale: the peer has deregistered the region",
      "the range lies outside the peer's region",
      "the region, or the peer's queue pair, lacks the right"},
     "get key, address and length from the peer again, and check what access it grants"},
    {"remote_operation",
     "remote operation error",
     "The peer's queue pair failed while answering.",
     {"the peer's receive names memory that it may not use", "the peer's device failed"},
     "check the peer: its own completions say what went wrong"},
    {"retry_exceeded",
     "transport retry counter exceeded",
     "The peer did not answer, although the request was sent repeatedly.",
     {"the peer is gone: its program has ended, or its queue pair is destroyed or in error",
      "the peer is not connected back to this queue pair yet",
      "the path is wrong: GID, LID, MTU or partition",
      "the network loses packets, or takes longer than the acknowledgement timeout"},
     "check that the peer is alive and has connected back, and compare the paths of both sides"},
    {"rnr_retry_exceeded",
     "receiver-not-ready retry counter exceeded",
     "The peer had no receive posted for the message in time.",
     {"the peer posts its receive after this side has sent",
      "the peer posts fewer receives than this side sends messages",
      "the peer is busy elsewhere or stopped"},
     "post receives before the peer sends, or allow more retries (max_rnr_retries)"},
    {"local_rdd_violation", "local RDD violation",
     "Queue pair and end-to-end context differ in their reliable datagram domain."},
    {"remote_invalid_rd_request", "remote invalid reliable-datagram request",
     "The peer refuses the reliable datagram."},
    {"remote_aborted",
     "remote aborted",
     "The peer cancelled the operation.",
     {"the peer's program or device aborted it"},
     "check the peer"},
    {"invalid_eec_number", "invalid EE context number",
     "There is no such end-to-end context, which only reliable datagrams have."},
    {"invalid_eec_state", "invalid EE context state",
     "The state of the end-to-end context forbids it."},
    {"fatal",
     "fatal error",
     "The device failed.",
     {"the device or its driver was reset or unplugged"},
     "destroy all objects of the device, and open it again"},
    {"response_timeout",
     "response timeout",
     "The peer stopped answering during the operation.",
     {"the peer is gone", "the network between the two failed"},
     "check that the peer is alive, then reconnect"},
    {"general",
     "general error",
     "The device gives no further reason.",
     {"a fault that only the vendor code identifies"},
     "look the vendor code up in the driver's documentation"},
    {"tag_matching", "tag matching error", "A tag matching request failed."},
    {"tag_matching_incomplete", "tag matching rendezvous incomplete",
     "The device could not finish a tagged message by itself."},
};
static_assert(std::size(kStatuses) == std::to_underlying(WorkStatus::tag_matching_incomplete) + 1u);

}  // namespace

std::span<const ErrorGuide> guide_to_statuses() noexcept { return kStatuses; }

const ErrorGuide& guide_to(WorkStatus status) noexcept {
  static constexpr ErrorGuide kUnknown{"", "unknown status", ""};
  const std::size_t index = std::to_underlying(status);
  return index < std::size(kStatuses) ? kStatuses[index] : kUnknown;  // A newer driver's, perhaps.
}

std::string_view to_string(WorkStatus status) noexcept { return guide_to(status).name; }

std::string_view hint_of(WorkStatus status) noexcept { return guide_to(status).remedy; }

std::string remedy_of(WorkStatus status) {
  if (status == WorkStatus::success) return {};
  std::string remedy{guide_to(status).remedy};
  if (!remedy.empty()) remedy += "; then ";
  return remedy += guide_to(Errc::work_failed).remedy;
}

std::string_view to_string(WorkErrorClass error_class) noexcept {
  switch (error_class) {
    case WorkErrorClass::local_programming: return "local programming error";
    case WorkErrorClass::local_resource: return "local resource error";
    case WorkErrorClass::remote: return "remote error";
    case WorkErrorClass::transport: return "transport error";
    case WorkErrorClass::timeout: return "timeout";
    case WorkErrorClass::fatal: return "fatal error";
    case WorkErrorClass::unknown: return "unclassified";
  }
  return "unclassified";
}

WorkErrorClass class_of(WorkStatus status) noexcept {
  switch (status) {
    case WorkStatus::local_length:
    case WorkStatus::local_queue_pair_operation:
    case WorkStatus::local_eec_operation:
    case WorkStatus::local_protection:
    case WorkStatus::local_access:
    case WorkStatus::local_rdd_violation:
    case WorkStatus::invalid_eec_number:
    case WorkStatus::invalid_eec_state: return WorkErrorClass::local_programming;
    case WorkStatus::flushed:
    case WorkStatus::memory_window_bind: return WorkErrorClass::local_resource;
    case WorkStatus::remote_invalid_request:
    case WorkStatus::remote_access:
    case WorkStatus::remote_operation:
    case WorkStatus::remote_invalid_rd_request:
    case WorkStatus::remote_aborted: return WorkErrorClass::remote;
    case WorkStatus::retry_exceeded:
    case WorkStatus::rnr_retry_exceeded: return WorkErrorClass::transport;
    case WorkStatus::response_timeout: return WorkErrorClass::timeout;
    case WorkStatus::fatal: return WorkErrorClass::fatal;
    case WorkStatus::success:
    case WorkStatus::bad_response:
    case WorkStatus::general:
    case WorkStatus::tag_matching:
    case WorkStatus::tag_matching_incomplete: return WorkErrorClass::unknown;
  }
  return WorkErrorClass::unknown;
}

}  // namespace verbatim
