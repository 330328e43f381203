// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/relay.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "soft/memory/copy.hpp"
#include "soft/memory/reach.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/long_wait.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

/// How long the owner may take to answer. A helper thread wakes up in a fraction of this.
constexpr auto kAnswerPatience = std::chrono::milliseconds{50};
/// How long the owner may take when it has begun an atomic, because nobody could tell afterwards
/// whether the atomic was done.
constexpr auto kAtomicPatience = std::chrono::seconds{10};

/// `turn`, split into its two parts.
struct Turn {
  std::uint64_t sequence;
  RelayState state;

  explicit Turn(std::uint64_t turn) noexcept
      : sequence(turn >> 8), state(static_cast<RelayState>(turn & 0xff)) {}
  Turn(std::uint64_t number, RelayState now) noexcept : sequence(number), state(now) {}
  [[nodiscard]] std::uint64_t word() const noexcept {
    return sequence << 8 | static_cast<std::uint64_t>(state);
  }
};

bool is_under_way(RelayState state) noexcept {
  return state == RelayState::asked || state == RelayState::busy;
}

/// Waits until the box is neither asked nor busy, the time is over, or the owner is dead. Returns
/// the last turn that it saw.
Turn wait_for_answer(Engine& engine, Peer& owner, const RelayBox& box,
                     std::chrono::nanoseconds patience) noexcept {
  const LongWord& turn = box.turn;
  for (LongWait wait;;) {
    const bool asks = wait.pause();
    const Turn seen{turn.load(std::memory_order_acquire)};
    if (!is_under_way(seen.state)) return seen;
    if (!asks) continue;
    answer_relay(engine);  // The owner may be waiting for us.
    if (wait.waited() > patience || !owner.is_alive()) return seen;
  }
}

/// Takes back a request that is only asked, and waits for one that is busy. Afterwards the box is
/// at rest, unless the owner did not finish in time.
Turn bring_to_rest(Engine& engine, Peer& owner, RelayBox& box,
                   std::chrono::nanoseconds patience) noexcept {
  LongWord& turn = box.turn;
  std::uint64_t seen = turn.load(std::memory_order_acquire);
  if (Turn{seen}.state == RelayState::asked &&
      turn.compare_exchange_strong(seen, Turn{Turn{seen}.sequence, RelayState::idle}.word()))
    return Turn{Turn{seen}.sequence, RelayState::idle};
  return wait_for_answer(engine, owner, box, patience);
}

struct Piece {
  RelayWork work;
  std::uint32_t key;
  std::uint64_t address;
  std::byte* data;
  std::size_t size;
  AtomicWork atomic;
};

bool is_atomic(RelayWork work) noexcept {
  return work == RelayWork::fetch_add || work == RelayWork::compare_swap;
}

void write_request(RelayBox& box, const Piece& piece) noexcept {
  box.work = piece.work;
  box.key = piece.key;
  box.length = static_cast<std::uint32_t>(piece.size);
  box.address = piece.address;
  box.compare_add = piece.atomic.compare_add;
  box.swap = piece.atomic.swap;
  if (piece.work == RelayWork::write) copy_bytes(box.data, piece.data, piece.size);
}

void take_answer(const RelayBox& box, const Piece& piece) noexcept {
  if (piece.work == RelayWork::read) copy_last_word_last(piece.data, box.data, piece.size);
  if (is_atomic(piece.work))
    *reinterpret_cast<std::uint64_t*>(piece.data) = __atomic_load_n(&box.old, __ATOMIC_RELAXED);
}

/// Exchanges one request and its answer. The caller holds the lock of the box.
Copied exchange_piece(Engine& engine, Peer& owner, RelayBox& box, const Piece& piece) noexcept {
  const Turn rest = bring_to_rest(engine, owner, box, kAnswerPatience);
  if (is_under_way(rest.state)) return owner.is_alive() ? Copied::not_now : Copied::no;
  write_request(box, piece);
  const Turn ours{rest.sequence + 1, RelayState::asked};
  box.turn.store(ours.word(), std::memory_order_release);
  owner.ring_doorbell();
  Turn answer = wait_for_answer(engine, owner, box, kAnswerPatience);
  if (is_under_way(answer.state))
    answer = bring_to_rest(engine, owner, box,
                           is_atomic(piece.work) ? kAtomicPatience : kAnswerPatience);
  if (answer.sequence != ours.sequence) return Copied::no;  // Another process wrote here.
  switch (answer.state) {
    case RelayState::done: take_answer(box, piece); return Copied::yes;
    case RelayState::idle:
    case RelayState::later: return owner.is_alive() ? Copied::not_now : Copied::no;
    case RelayState::busy:
      // The owner was stopped in the middle. We may repeat a copy, but never an atomic.
      return is_atomic(piece.work) || !owner.is_alive() ? Copied::no : Copied::not_now;
    case RelayState::asked:
    case RelayState::failed: break;
  }
  return Copied::no;
}

/// A box that is free, or whose user is dead; else the first: it becomes free soon, unless
/// stopped processes have them all.
RelayBox& choose_box(Engine& engine, Peer& owner) noexcept {
  RelayBox* const boxes = owner.segment().relay;
  for (std::uint32_t i = 0; i < kRelayBoxes; ++i) {
    const std::uint32_t user = boxes[i].lock.load();
    if (user == 0 || engine.peers().is_dead(user)) return boxes[i];
  }
  return boxes[0];
}

/// Takes a box for each piece, so that others have their turn while a long request runs.
Copied exchange_all(Engine& engine, Peer& owner, Piece whole) noexcept {
  Copied result = Copied::yes;
  while (result == Copied::yes && whole.size > 0) {
    RelayBox& box = choose_box(engine, owner);
    const TaggedGuard guard{box.lock, engine.tag(), engine.peers(), LockRank::relay,
                            kAnswerPatience};
    if (!guard) return Copied::not_now;
    Piece piece = whole;
    piece.size = std::min(whole.size, sizeof box.data);
    result = exchange_piece(engine, owner, box, piece);
    whole.address += piece.size;
    whole.data += piece.size;
    whole.size -= piece.size;
  }
  return result;
}

/// Serves a request. Copies its fields out of the box first, because any process of this user may
/// have written them.
RelayState serve(Engine& engine, RelayBox& box) noexcept {
  const RelayWork work = box.work;
  const std::size_t size = box.length;
  const std::uint64_t address = box.address;
  if (size > sizeof box.data || (is_atomic(work) && size != sizeof(std::uint64_t)))
    return RelayState::failed;
  const std::lock_guard lock{engine.relay_lock};
  // A peer could ask for any address, so only registered memory is served.
  Location location;
  if (!locate_served(engine, box.key, address, size, work != RelayWork::read, location))
    return RelayState::failed;
  switch (work) {
    case RelayWork::write: copy_last_word_last(location.direct, box.data, size); break;
    case RelayWork::read: copy_bytes(box.data, location.direct, size); break;
    case RelayWork::fetch_add:
    case RelayWork::compare_swap: {
      if (address % sizeof(std::uint64_t) != 0) return RelayState::failed;
      std::uint64_t old = 0;
      const Copied done = atomic_memory(
          engine, location, {work == RelayWork::compare_swap, box.compare_add, box.swap}, old);
      if (done != Copied::yes) return done == Copied::no ? RelayState::failed : RelayState::later;
      __atomic_store_n(&box.old, old, __ATOMIC_RELAXED);
      break;
    }
    default: return RelayState::failed;
  }
  return RelayState::done;
}

void answer_box(Engine& engine, RelayBox& box) noexcept {
  std::uint64_t asked = box.turn.load(std::memory_order_acquire);
  const Turn turn{asked};
  if (turn.state != RelayState::asked) return;
  // Claims the request. From here on the requester cannot take it back or replace it.
  if (!box.turn.compare_exchange_strong(asked, Turn{turn.sequence, RelayState::busy}.word()))
    return;
  const RelayState answer = serve(engine, box);
  box.turn.store(Turn{turn.sequence, answer}.word(), std::memory_order_release);
}

}  // namespace

Copied relay_write(Engine& engine, const Location& to, const std::byte* from,
                   std::size_t size) noexcept {
  return exchange_all(
      engine, *to.owner,
      {RelayWork::write, to.key, to.address, const_cast<std::byte*>(from), size, {}});
}

Copied relay_read(Engine& engine, const Location& from, std::byte* to, std::size_t size) noexcept {
  return exchange_all(engine, *from.owner, {RelayWork::read, from.key, from.address, to, size, {}});
}

Copied relay_atomic(Engine& engine, const Location& at, const AtomicWork& work,
                    std::uint64_t& old) noexcept {
  return exchange_all(engine, *at.owner,
                      {work.is_swap ? RelayWork::compare_swap : RelayWork::fetch_add, at.key,
                       at.address, reinterpret_cast<std::byte*>(&old), sizeof old, work});
}

void answer_relay(Engine& engine) noexcept {
  for (RelayBox& box : engine.segment().relay) answer_box(engine, box);
}

void wait_for_relay(Engine& engine) noexcept { const std::lock_guard lock{engine.relay_lock}; }

}  // namespace verbatim::engine
