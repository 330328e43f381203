// SPDX-License-Identifier: MIT OR Apache-2.0
// The guide to the codes. That to the statuses is in work_status.cpp.
#include "verbatim/base/error_guide.hpp"

#include <utility>

namespace verbatim {
namespace {

/// Indexed by the code: one row per fact, so that no two places can disagree.
constexpr ErrorGuide kCodes[] = {
    {"invalid_argument",
     "invalid argument",
     "An argument of the call is wrong: `field` names it, `value` is what it was.",
     {"the program passes a value that the call does not accept",
      "the driver refuses an argument and does not say which"},
     "fix the call; `dmesg | tail` may say what the driver refused"},
    {"limit_exceeded",
     "limit exceeded",
     "The call asks for `value`, and there can be `limit` at most.",
     {"the program asks for more than the device, the queue or the type can hold"},
     "ask for less, or make that deeper which is too small"},
    {"not_found",
     "not found",
     "There is no such device, port, partition, address, file or library.",
     {"the name or number is wrong", "the thing went away"},
     "compare the name with what the system lists"},
    {"permission_denied",
     "permission denied",
     "The call needs a right that the process, the region or the queue pair does not have.",
     {"the process may not use the device or the file",
      "the region or the queue pair was made without that right"},
     "ask for the right where the object is made, or get it for the process"},
    {"out_of_resources",
     "out of resources",
     "Memory, descriptors, space or objects of the device are used up.",
     {"objects of this kind that are no longer needed hold it",
      "a limit of the system is lower than what the program needs"},
     "free what is not needed, or raise the limit"},
    {"unsupported",
     "unsupported",
     "This device, kernel or library cannot do it at all.",
     {"the device lacks the feature", "the kernel or rdma-core is too old"},
     "ask Context::capabilities() first, and do without"},
    {"would_block",
     "queue full",
     "The queue has no room for more work at this moment.",
     {"completions that nobody has taken hold the places",
      "the queue is too shallow for what is posted at once"},
     "take completions, then try again; or make the queue deeper"},
    {"busy",
     "busy",
     "Something still uses the object.",
     {"something made from the object is still alive"},
     "destroy that first"},
    {"timed_out",
     "timed out",
     "The deadline passed before it happened.",
     {"the peer is slow, or has not come so far yet",
      "the peer waits too: both sides expect a message from the other", "the peer is gone"},
     "look at what the peer does; allow more time where it may need it"},
    {"not_ready",
     "not ready",
     "A port or queue pair is in a state that forbids it.",
     {"the port is not ACTIVE", "the queue pair is not connected yet"},
     "wait for the state the call needs, or choose another port"},
    {"malformed",
     "malformed",
     "Bytes from a peer or a file are not what they claim to be.",
     {"the sender is another program or another release", "the bytes were damaged on the way"},
     "look at who sent them: `field` is where they go wrong"},
    {"incompatible",
     "incompatible endpoints",
     "Both endpoints are sound, and they cannot talk: `field` says in what they differ.",
     {"the two endpoints cannot be connected as they are"},
     "make both sides alike in that field"},
    {"forked",
     "object belongs to the parent of this forked process",
     "The object was made before fork(), and this is the child.",
     {"a child of fork() uses an object of its parent"},
     "open the device again in this process, after fork()"},
    {"device_failed",
     "device failed",
     "The device or one of its queues is broken.",
     {"the device or its driver was reset or unplugged", "a completion queue overflowed"},
     "drop all objects of the device and open it again"},
    {"work_failed",
     "work failed",
     "The device took the work, and it failed: `value` is the status, `limit` the vendor code.",
     {"the status says why: the device or the peer refused, or the peer did not answer"},
     "recycle() the channel, or reset the queue pair, to connect anew"},
    {"cancelled",
     "cancelled",
     "Somebody asked for the end of the work.",
     {"cancel() or a stop request ended the channel's work on purpose"},
     "recycle() makes the channel usable again"},
    {"broken",
     "channel broken",
     "An earlier failure ended the channel.",
     {"an operation failed, timed out or was cancelled before this one"},
     "cause() tells the first failure; recycle() makes the channel usable again"},
    {"closed",
     "channel closed",
     "The channel was closed before the work could finish.",
     {"the channel was closed or destroyed while the operation was on its way"},
     "wait for the operations before the end, or close() with a deadline"},
    {"stale",
     "stale handle",
     "The handle's operation is over.",
     {"the result was taken before", "the handle was moved from",
      "the scope of the operation has ended"},
     "wait once for each operation"},
    {"driver",
     "driver error",
     "The driver or the system failed in another way: `os_error` is what it said.",
     {"the driver, the kernel or the hardware has a fault"},
     "read the kernel's log: `dmesg | tail`"},
};
static_assert(std::size(kCodes) == std::to_underlying(Errc::driver) + 1u);

}  // namespace

std::span<const ErrorGuide> guide_to_codes() noexcept { return kCodes; }

const ErrorGuide& guide_to(Errc code) noexcept {
  static constexpr ErrorGuide kUnknown{"", "unknown error code", ""};
  const std::size_t index = std::to_underlying(code);
  return index < std::size(kCodes) ? kCodes[index] : kUnknown;
}

std::string_view to_string(Errc code) noexcept { return guide_to(code).name; }

}  // namespace verbatim
