// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/reactor/reactor.hpp"

#include <sys/epoll.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/library_thread.hpp"
#include "channel/channel_state.hpp"
#include "channel/dialling.hpp"
#include "channel/shared_receives.hpp"
#include "reactor/reactor_state.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/verbs/detail/returned_blocks.hpp"

namespace verbatim {
namespace detail {
namespace {

Root make_root(ReactorState&, Task<void> task) { co_await std::move(task); }

}  // namespace

Root::promise_type::promise_type(ReactorState& on, Task<void>&) noexcept : reactor(on) {
  after = std::exchange(on.roots, this);
  on.has_no_roots = false;
  if (after != nullptr) after->before = this;
}

void Root::promise_type::leave() noexcept {
  (before != nullptr ? before->after : reactor.roots) = after;
  if (after != nullptr) after->before = before;
  reactor.has_no_roots = reactor.roots == nullptr;
}

void Root::promise_type::Leave::await_suspend(std::coroutine_handle<promise_type> done) noexcept {
  promise_type& self = done.promise();
  self.leave();
  if (self.over != nullptr) *self.over = true;
  if (self.thrown && self.reactor.thrown)
    log(LogLevel::warning, "an exception of a second task is lost: run() throws the first");
  if (self.thrown && !self.reactor.thrown) self.reactor.call_off(std::move(self.thrown));
  done.destroy();
}

}  // namespace detail

Result<Reactor> Reactor::create(const ProtectionDomain& domain, const ReactorOptions& options) {
  auto core = VERBATIM_TRY(detail::CompletionCore::create(
      domain.context(), 64, options.max_operations, CompletionQueueGrowth::resize));
  auto state = std::make_unique<detail::ReactorState>(std::move(core), options);
  VERBATIM_TRY(state->open());
  if (options.receives)
    state->core->shared_receives =
        VERBATIM_TRY(detail::SharedReceives::create(*state->core, domain, *options.receives));
  return Reactor{std::move(state)};
}

Reactor::Reactor(std::unique_ptr<detail::ReactorState> state) noexcept : state_(std::move(state)) {}
Reactor::Reactor(Reactor&&) noexcept = default;
Reactor& Reactor::operator=(Reactor&&) noexcept = default;
Reactor::~Reactor() = default;

Reactor::operator SharedCompletions() const noexcept { return SharedCompletions{state_->core}; }

void Reactor::run() { static_cast<void>(state_->run(nullptr)); }

bool Reactor::run_until_over(Task<void> task) {
  bool over = false;
  detail::Root::promise_type& root = *detail::make_root(*state_, std::move(task)).promise;
  root.over = &over;
  struct End {  // Also when another exception is thrown.
    ~End() {
      if (over) return;
      root.leave();
      root.handle().destroy();
    }
    const bool& over;
    detail::Root::promise_type& root;
  } const end{over, root};
  root.handle().resume();
  return state_->run(&over);
}

void Reactor::spawn(Task<void> task) {
  const std::uintptr_t inside = state_->inside.load(std::memory_order_relaxed);
  check(inside == 0 || inside == detail::this_thread(),
        "Reactor::spawn(): another thread is in the reactor; submit() is for any thread");
  detail::make_root(*state_, std::move(task)).promise->handle().resume();
}

std::size_t Reactor::poll() { return state_->poll(); }
std::size_t Reactor::poll(std::span<void*> out) {
  check(!out.empty(), "Reactor::poll(): no room for a single tag");
  return state_->poll(out);
}

void Reactor::tell(detail::ChannelCore& channel, detail::Slot& slot, bool is_to_come, void* tag,
                   Deadline deadline) {
  if (!is_to_come) {
    state_->tags.add(tag);
    state_->core->waker->wake();  // Nothing else signals fd().
    return;
  }
  slot.tag = tag;
  wake_at_end(channel, slot, detail::as_waiter(state_->tags), end_of_wait(channel, slot, deadline));
}

void Reactor::notify(Incoming& incoming, void* tag) {
  detail::Receiver& receiver = incoming.receiver_;
  if (receiver.is_ready()) {
    state_->tags.add(tag);
    state_->core->waker->wake();  // Nothing else signals fd().
    return;
  }
  receiver.tag = tag;
  receiver.wake_with_news(detail::as_waiter(state_->tags));
}

std::uint32_t Reactor::free_receives() const noexcept {
  return state_->core->shared_receives != nullptr ? state_->core->shared_receives->free() : 0;
}

int Reactor::fd() noexcept {
  // Events from before this call count, too, so the descriptor is readable at first. The first
  // poll() arms.
  if (!std::exchange(state_->has_shown_fd, true)) state_->core->waker->wake();
  return state_->epoll.get();
}

detail::SleepAwaiter Reactor::sleep(std::chrono::nanoseconds time) noexcept {
  return {*state_, -1, 0, Deadline{time}};
}
detail::EventAwaiter Reactor::readable(int descriptor, Deadline deadline) noexcept {
  return {*state_, descriptor, EPOLLIN, deadline};
}
detail::EventAwaiter Reactor::writable(int descriptor, Deadline deadline) noexcept {
  return {*state_, descriptor, EPOLLOUT, deadline};
}

Task<Result<Connection>> Reactor::accept(const Listener& listener, Deadline deadline) {
  for (;;) {
    auto met = listener.try_accept();
    if (!met) co_return std::unexpected(met.error());
    if (*met) co_return std::move(**met);
    if (const auto ready = co_await readable(listener.fd(), deadline); !ready) {
      Error error = ready.error();
      error.operation = "accept";
      if (error == Errc::timed_out) error.field = "connection";
      co_return std::unexpected(error);
    }
  }
}

Task<Result<Connection>> Reactor::dial(const ProtectionDomain& domain, std::string_view address,
                                       const DialOptions& options) {
  DialOptions here = options;
  here.channel.on = *this;
  // Shared with the thread that resolves the name, which may outlive us.
  return drive(std::make_shared<detail::Dialling>(domain, address, here));
}
Task<Result<Connection>> Reactor::dial(const ProtectionDomain& domain, std::string_view address) {
  const DialOptions options;
  return dial(domain, address, options);
}

Task<Result<Connection>> Reactor::drive(std::shared_ptr<detail::Dialling> dialling) {
  if (!dialling->needs_lookup()) {
    if (auto found = dialling->look_up(); !found) co_return std::unexpected(found.error());
  } else {
    struct Lookup {
      detail::Waker done{};
      Result<void> found{};
    };
    const auto lookup = std::make_shared<Lookup>();
    if (lookup->done.fd() < 0) co_return std::unexpected(os_failure("dial", errno));
    try {
      start_library_thread([dialling, lookup] {
        lookup->found = dialling->look_up();
        lookup->done.wake();
      }).detach();
    } catch (const std::system_error& refused) {
      co_return std::unexpected(os_failure("pthread_create", refused.code().value()));
    }
    // The thread itself keeps to the deadline of the call.
    if (auto done = co_await readable(lookup->done.fd()); !done)
      co_return std::unexpected(done.error());
    if (!lookup->found) co_return std::unexpected(lookup->found.error());
  }
  for (;;) {
    const auto met = dialling->step();
    if (!met) co_return std::unexpected(met.error());
    if (*met) co_return std::move(*dialling).take();
    // The next step() notices that the time is over.
    std::ignore = co_await detail::EventAwaiter{
        *state_, dialling->fd(),
        dialling->fd() < 0 ? 0 : static_cast<std::uint32_t>(dialling->wanted()),
        Deadline{dialling->due()}};
  }
}

void Reactor::stop() noexcept {
  state_->is_stopped = true;
  state_->core->waker->wake();
}

void Reactor::submit(std::function<void()> work) {
  {
    const std::lock_guard lock{state_->mutex};
    state_->submitted.push_back(std::move(work));
  }
  state_->core->waker->wake();
}

}  // namespace verbatim
