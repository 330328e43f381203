// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/faults/hook.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <string>

#include "base/environment.hpp"
#include "soft/shared/changes.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/lock_rank.hpp"

namespace verbatim {
namespace engine {
namespace {

struct State {
  Ranked<LockRank::script, std::mutex> mutex;
  soft::Behaviour behaviour;
  std::mt19937_64 random;
  std::uint64_t operations = 0;
  std::uint64_t calls = 0;
  std::atomic<std::uint64_t> down_until{0};
};
/// Never destroyed: other threads may run on while the process exits, and an exit must not free
/// memory (control/engine.cpp).
State& state() {
  alignas(State) static std::byte place[sizeof(State)];
  static State& immortal = *new (place) State;
  return immortal;
}

/// Reported when a device is opened, because there is no caller to tell while the process starts.
std::optional<Error>& bad_environment() {
  static std::optional<Error> error;
  return error;
}

/// The behaviour that the environment asks for, used until the program sets another.
soft::Behaviour from_environment() {
  soft::Behaviour behaviour;
  // Opening a device refuses any value that is not known (check_settings).
  if (environment("VERBATIM_SOFT_MODE", "") == "deferred") behaviour.mode = soft::Mode::deferred;
  if (const char* const seed = environment("VERBATIM_SOFT_SEED"))
    behaviour.seed = std::strtoull(seed, nullptr, 10);
  if (const char* const faults = environment("VERBATIM_SOFT_FAULTS")) {
    auto plan = soft::parse_fault_plan(faults);
    if (plan) behaviour.faults = std::move(*plan);
    if (!plan) bad_environment() = plan.error();
  }
  return behaviour;
}

bool differs(const soft::Behaviour& behaviour) noexcept {
  return behaviour.mode == soft::Mode::deferred || !behaviour.faults.operations.empty() ||
         !behaviour.faults.calls.empty();
}

[[maybe_unused]] const bool kInitialized = [] {
  soft::set_behaviour(from_environment());
  return true;
}();

void apply(const soft::Fault& fault, std::uint64_t now, Script& script) noexcept {
  const auto delay = static_cast<std::uint64_t>(fault.delay.count());
  switch (fault.kind) {
    case soft::FaultKind::drop: script.drops += fault.count; break;
    case soft::FaultKind::delay:
      script.not_before_ns = std::max(script.not_before_ns, now + delay);
      break;
    case soft::FaultKind::no_receive: script.no_receives += fault.count; break;
    case soft::FaultKind::fail: script.status = fault.status; break;
    case soft::FaultKind::port_down: script.port_down_ns = delay; break;
    case soft::FaultKind::overrun: script.overrun = true; break;
    case soft::FaultKind::remove_device: script.remove_device = true; break;
  }
}

}  // namespace

std::atomic<bool> unusual{false};

std::optional<Error> environment_error() { return bad_environment(); }

void lock_script() noexcept { state().mutex.lock(); }
void unlock_script() noexcept { state().mutex.unlock(); }

Script next_operation() noexcept {
  State& now_state = state();
  const std::lock_guard lock{now_state.mutex};
  const std::uint64_t now = now_ns();
  Script script;
  ++now_state.operations;
  if (now_state.behaviour.mode == soft::Mode::deferred) {
    const auto most = static_cast<std::uint64_t>(now_state.behaviour.max_delay.count());
    script.not_before_ns = now + now_state.random() % (most + 1);
  }
  for (const soft::Fault& fault : now_state.behaviour.faults.operations)
    if (fault.operation == now_state.operations) apply(fault, now, script);
  return script;
}

int next_call() noexcept {
  State& now_state = state();
  const std::lock_guard lock{now_state.mutex};
  ++now_state.calls;
  for (const soft::CallFault& fault : now_state.behaviour.faults.calls)
    if (fault.call == now_state.calls) return fault.os_error;
  return 0;
}

std::uint64_t port_down_until() noexcept { return state().down_until.load(); }
void take_port_down(std::uint64_t until_ns) noexcept { state().down_until.store(until_ns); }
bool port_came_up(std::uint64_t now) noexcept {
  std::uint64_t until = state().down_until.load();
  return until != 0 && now >= until && state().down_until.compare_exchange_strong(until, 0);
}

}  // namespace engine

namespace soft {

void set_behaviour(Behaviour behaviour) {
  engine::State& now_state = engine::state();
  const std::lock_guard lock{now_state.mutex};
  now_state.random.seed(behaviour.seed);
  now_state.operations = 0;
  now_state.calls = 0;
  now_state.down_until.store(0);
  engine::unusual.store(engine::differs(behaviour));
  engine::own_changes.fetch_add(1);
  now_state.behaviour = std::move(behaviour);
}

}  // namespace soft
}  // namespace verbatim
