// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Fault injection: what goes wrong on the software device, and when.
///
/// A plan counts the work requests that this process posts on software devices ("operations") and
/// its control calls, from 1, starting when the plan is installed. `VERBATIM_SOFT_FAULTS` can give
/// the same plan as text (see parse_fault_plan), without a change to the program.
///
/// Threads: install plans while no request is in flight.
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"

namespace verbatim::soft {

enum class FaultKind : std::uint8_t {
  /// The wire loses it `count` times; each loss costs an ack timeout. Without an ack timeout
  /// nothing is resent: it and all requests behind it stay outstanding until the queue pair is
  /// moved to error or reset.
  drop,
  delay,          ///< It starts `delay` late, and so do all requests behind it in its queue.
  no_receive,     ///< The peer answers "no receive posted" `count` times.
  fail,           ///< It completes with `status`; its queue pair breaks.
  port_down,      ///< When it is posted the port goes down; it comes up again after `delay`.
  overrun,        ///< The completion queue of its sends overruns.
  remove_device,  ///< The device disappears.
};

struct Fault {
  FaultKind kind{};
  std::uint64_t operation = 0;  ///< Its number, from 1.
  std::uint32_t count = 1;
  std::chrono::nanoseconds delay{};
  std::uint8_t status = 21;  ///< An `ibv_wc_status` (a `WorkStatus`, as a number).
};

/// The n-th control call (open, register, create, modify, …) fails with an errno.
struct CallFault {
  std::uint64_t call = 0;
  int os_error = 0;
};

struct FaultPlan {
  std::vector<Fault> operations;
  std::vector<CallFault> calls;

  FaultPlan& drop(std::uint64_t operation, std::uint32_t times = 1) {
    return add({.kind = FaultKind::drop, .operation = operation, .count = times});
  }
  FaultPlan& delay(std::uint64_t operation, std::chrono::nanoseconds time) {
    return add({.kind = FaultKind::delay, .operation = operation, .delay = time});
  }
  FaultPlan& no_receive(std::uint64_t operation, std::uint32_t times = 1) {
    return add({.kind = FaultKind::no_receive, .operation = operation, .count = times});
  }
  template <class Status>
  FaultPlan& fail(std::uint64_t operation, Status status) {
    return add({.kind = FaultKind::fail,
                .operation = operation,
                .status = static_cast<std::uint8_t>(status)});
  }
  FaultPlan& port_down(std::uint64_t operation, std::chrono::nanoseconds time) {
    return add({.kind = FaultKind::port_down, .operation = operation, .delay = time});
  }
  FaultPlan& overrun(std::uint64_t operation) {
    return add({.kind = FaultKind::overrun, .operation = operation});
  }
  FaultPlan& remove_device(std::uint64_t operation) {
    return add({.kind = FaultKind::remove_device, .operation = operation});
  }
  FaultPlan& fail_call(std::uint64_t call, int os_error) {
    calls.push_back({call, os_error});
    return *this;
  }

 private:
  FaultPlan& add(Fault fault) {
    operations.push_back(fault);
    return *this;
  }
};

/// Items separated by `;`: `drop@17`, `drop@17x3`, `delay@5=2ms`, `rnr@9x2`, `fail@4=12` (a
/// status), `port_down@30=5ms`, `overrun@6`, `remove@99`, `call@3=ENOMEM` (or a number). An error
/// names the item.
[[nodiscard]] Result<FaultPlan> parse_fault_plan(std::string_view text);

}  // namespace verbatim::soft
