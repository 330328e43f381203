// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/relay.hpp"

#include <algorithm>
#include <chrono>

#include "soft/memory/copy.hpp"
#include "soft/memory/registration.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

enum State : std::uint32_t { idle, asked, done, failed };
constexpr auto kPatience = std::chrono::seconds{2};

struct Piece {
  bool write;
  std::uint64_t address;
  std::byte* data;
  std::size_t size;
};

/// One request and its answer. The box is ours while we hold its lock.
bool exchange_piece(Peer& peer, const Piece& piece) noexcept {
  RelayBox& box = peer.segment().relay;
  box.write = piece.write ? 1 : 0;
  box.length = static_cast<std::uint32_t>(piece.size);
  box.address = piece.address;
  if (piece.write) copy_bytes(box.data, piece.data, piece.size);
  box.state.store(asked, std::memory_order_release);
  peer.ring_doorbell();
  const auto start = std::chrono::steady_clock::now();
  Backoff backoff;
  std::uint32_t state = asked;
  while ((state = box.state.load(std::memory_order_acquire)) == asked) {
    backoff.wait();
    if (backoff.rounds() % 256 == 0 &&
        (!peer.is_alive() || std::chrono::steady_clock::now() - start > kPatience))
      break;
  }
  box.state.store(idle);
  if (state != done) return false;
  if (!piece.write) copy_last_word_last(piece.data, box.data, piece.size);
  return true;
}

bool exchange_all(const Engine& engine, Peer& peer, Piece whole) noexcept {
  auto& peers = const_cast<Engine&>(engine).peers();
  RelayBox& box = peer.segment().relay;
  if (acquire(box.lock, engine.tag(), peers, kPatience) == Acquired::no) return false;
  bool good = true;
  while (good && whole.size > 0) {
    const std::size_t size = std::min(whole.size, sizeof box.data);
    good = exchange_piece(peer, {whole.write, whole.address, whole.data, size});
    whole.address += size;
    whole.data += size;
    whole.size -= size;
  }
  release(box.lock);
  return good;
}

}  // namespace

bool relay_write(const Engine& engine, Peer& to, std::uint64_t address, const std::byte* from,
                 std::size_t size) noexcept {
  return exchange_all(engine, to, {true, address, const_cast<std::byte*>(from), size});
}

bool relay_read(const Engine& engine, Peer& from, std::uint64_t address, std::byte* to,
                std::size_t size) noexcept {
  return exchange_all(engine, from, {false, address, to, size});
}

void answer_relay(Engine& engine) noexcept {
  RelayBox& box = engine.segment().relay;
  if (box.state.load(std::memory_order_acquire) != asked) return;
  const std::size_t size = box.length;
  const std::uint64_t address = box.address;
  // A peer could ask for any address: only what is registered is served.
  if (size > sizeof box.data || !is_registered(engine, address, size)) {
    box.state.store(failed, std::memory_order_release);
    return;
  }
  auto* const memory = reinterpret_cast<std::byte*>(address);
  if (box.write != 0) {
    copy_last_word_last(memory, box.data, size);
  } else {
    copy_bytes(box.data, memory, size);
  }
  box.state.store(done, std::memory_order_release);
}

}  // namespace verbatim::engine
