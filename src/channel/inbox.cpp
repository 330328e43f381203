// SPDX-License-Identifier: MIT OR Apache-2.0
// The messages that arrived for a channel with shared receives, and the receivers that wait for
// them.
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/shared_receives.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/channel/incoming.hpp"

namespace verbatim {
namespace detail {

// ---- Inbox --------------------------------------------------------------------------------------

Inbox::Bell::Bell(Inbox& of) noexcept
    : Waiter{[](Waiter& self, Slot&) noexcept { static_cast<Bell&>(self).inbox.tell_all(); }},
      inbox(of) {}

Inbox::Inbox(ChannelState& of) noexcept
    : core(of.core),
      shared(*of.core->shared_receives),
      channel(&of),
      room(shared.options.max_unread),
      latest(shared.latest),
      bell_(*this) {}

Inbox::~Inbox() {
  core->wakeups.remove(bell_.slot);
  discard();
}

Slot* Inbox::hand_over(Receiver& to, Slot& message) noexcept {
  to.leave();
  to.message = &message;
  message.waiter = std::exchange(to.waiter, 0);
  message.tag = to.tag;
  message.deadline = message.id;
  return &message;
}

Slot* Inbox::put(Slot& message) noexcept {
  if (waiting.after != &waiting) [[likely]]
    return hand_over(static_cast<Receiver&>(*waiting.after), message);
  if (room == 0) [[unlikely]] {
    shared.give_back(message);
    if (!end && channel != nullptr && !channel->ending.failure) {
      discard();
      channel->too_many_unread(shared.options.max_unread);
    }
    return nullptr;
  }
  --room;
  message.next = nullptr;
  (first == nullptr ? first : last->next) = &message;
  last = &message;
  if (channel != nullptr) channel->message_came(message);
  return nullptr;
}

void Inbox::put_back(Slot& message) noexcept {
  message.waiter = 0;
  if (waiting.after != &waiting) {
    core->wakeups.link(*hand_over(static_cast<Receiver&>(*waiting.after), message));
    return;
  }
  message.next = std::exchange(first, &message);
  if (message.next == nullptr) last = &message;
  if (room != 0) --room;
}

Slot* Inbox::take_first() noexcept {
  Slot* const message = first;
  if (message == nullptr) return nullptr;
  first = message->next;
  if (!end) ++room;
  if (channel != nullptr) channel->message_taken(*message);
  return message;
}

void Inbox::discard() noexcept {
  while (first != nullptr) shared.give_back(*std::exchange(first, first->next));
}

void Inbox::tell_end(const Error& why) noexcept {
  if (end) return;
  end = why;
  room = 0;
  if (waiting.after == &waiting) return;
  bell_.slot.waiter = as_waiter(bell_);
  core->wakeups.link(bell_.slot);
}

void Inbox::tell_all() noexcept {
  ++users;  // A resumed receiver may drop the last reference.
  while (waiting.after != &waiting) {
    auto& told = static_cast<Receiver&>(*waiting.after);
    told.leave();
    bell_.slot.waiter = std::exchange(told.waiter, 0);
    bell_.slot.tag = told.tag;
    wake(bell_.slot);
  }
  release();
}

void Inbox::leave() noexcept {
  shared.forget(*this);
  channel = nullptr;
  release();
}

// ---- Receiver -----------------------------------------------------------------------------------

Receiver::Receiver(ChannelCore& of) noexcept : inbox(whole(of).inbox) {
  if (inbox != nullptr) ++inbox->users;
}

Receiver::Receiver(Receiver&& other) noexcept
    : inbox(std::exchange(other.inbox, nullptr)),
      message(std::exchange(other.message, nullptr)),
      waiter(std::exchange(other.waiter, 0)),
      tag(other.tag) {
  if (waiter == 0) return;
  enter(*other.after);  // In the place of `other`, before the next one.
  other.leave();
}

bool Receiver::is_ready() noexcept {
  if (inbox == nullptr || message != nullptr) {
    if (message != nullptr) message->waiter = 0;
    return true;
  }
  withdraw();
  message = inbox->take_first();
  return message != nullptr || inbox->end;
}

void Receiver::wake_with_news(std::uintptr_t whom) noexcept {
  check(inbox->core->driver != nullptr, "co_await: the channel is on no Reactor");
  waiter = whom;
  enter(inbox->waiting);
}

void Receiver::withdraw() noexcept {
  if (message != nullptr) message->waiter = 0;
  if (waiter == 0) return;
  waiter = 0;
  leave();
}

void Receiver::drop() noexcept {
  withdraw();
  Inbox& left = *std::exchange(inbox, nullptr);
  if (message != nullptr) left.put_back(*message);
  left.release();
}

Completed<Buffer> Receiver::take() noexcept {
  if (inbox == nullptr)
    return {Raw::buffer(nullptr),
            std::unexpected(
                Error{.code = Errc::unsupported,
                      .operation = "receive",
                      .field = "without memory: the channel's reactor has no shared receives"})};
  withdraw();
  if (const Slot* const taken = std::exchange(message, nullptr))
    return {inbox->shared.buffer_of(*taken), taken->completion};
  return {Raw::buffer(nullptr),
          std::unexpected(inbox->end.value_or(
              Error{.code = Errc::timed_out, .operation = "receive", .field = "a message"}))};
}

void Receiver::call_at(Timer& timer, Deadline deadline) const {
  if (deadline.kind() == Deadline::Kind::own && inbox->channel != nullptr)
    deadline = inbox->channel->options.timeout;
  inbox->core->call_at(timer, deadline);
}

IncomingDeadlineAwaiter::IncomingDeadlineAwaiter(Receiver& receiver, Deadline deadline) noexcept
    : Timer{[](Timer& self) noexcept {
        auto& late = static_cast<IncomingDeadlineAwaiter&>(self);
        if (late.receiver_.waiter == 0) return;  // It is about to be woken.
        late.receiver_.withdraw();
        late.waiting_.resume();
      }},
      receiver_(receiver),
      deadline_(deadline) {}

}  // namespace detail

// ---- Incoming -----------------------------------------------------------------------------------

bool Incoming::ready() noexcept {
  if (receiver_.is_ready()) return true;
  detail::ChannelState* const channel = receiver_.inbox->channel;
  if (channel == nullptr) return false;
  channel->look_once();
  return receiver_.is_ready();
}

Completed<Buffer> Incoming::wait(Deadline deadline) noexcept {
  if (!receiver_.is_ready() && receiver_.inbox->channel != nullptr) {
    detail::Inbox& inbox = *receiver_.inbox;
    detail::ChannelState& channel = *inbox.channel;
    detail::Patience patience{channel, deadline};
    static_cast<void>(channel.wait_until([&] { return inbox.has_news(); }, patience));
    static_cast<void>(receiver_.is_ready());
  }
  return receiver_.take();
}

}  // namespace verbatim
