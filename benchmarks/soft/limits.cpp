// SPDX-License-Identifier: MIT OR Apache-2.0
// What the machine itself can do, for comparison with the figures of the device.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "base/relax_processor.hpp"
#include "cases.hpp"

namespace verbatim::bench {
namespace {

std::byte* map_shared(int fd, std::size_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) die("cannot map the shared memory");
  return static_cast<std::byte*>(mapped);
}

/// The median over slices of half a round trip. `await(turn)` returns when it is our turn;
/// `pass(turn)` gives the turn to the other side.
template <class Await, class Pass>
double ping_pong(Role role, std::uint64_t rounds, const Await& await, const Pass& pass) {
  constexpr std::size_t kSlices = 201;
  std::vector<double> us;
  std::uint64_t turn = role == Role::left ? 0 : 1;  // Left makes even numbers odd.
  for (std::size_t slice = 0; slice < kSlices; ++slice) {
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < rounds; ++i, turn += 2) {
      await(turn);
      pass(turn + 1);
    }
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
                 (2 * static_cast<double>(rounds)));
  }
  std::ranges::nth_element(us, us.begin() + std::ssize(us) / 2);
  return us[us.size() / 2];
}

void await_word(std::uint64_t& word, std::uint64_t value) {
  while (std::atomic_ref{word}.load(std::memory_order_acquire) != value) finish_look();
}

/// The address of a process's word, for the other process.
struct Address {
  std::uint64_t pid;
  std::uint64_t word;
  std::uint64_t ready;
};

}  // namespace

double hand_off(Role role, int shared_fd) {
  auto& word = *reinterpret_cast<std::uint64_t*>(map_shared(shared_fd, 4096));
  return ping_pong(
      role, 1000, [&](std::uint64_t turn) { await_word(word, turn); },
      [&](std::uint64_t turn) { std::atomic_ref{word}.store(turn, std::memory_order_release); });
}

double hand_off_by_call(Role role, int shared_fd) {
  const auto memory = std::make_unique<std::array<std::uint64_t, 1024>>();  // Plain memory.
  std::uint64_t& word = (*memory)[512];
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  auto* const addresses = reinterpret_cast<Address*>(map_shared(shared_fd, 4096));
  Address& mine = addresses[role == Role::left ? 0 : 1];
  Address& other = addresses[role == Role::left ? 1 : 0];
  mine.pid = static_cast<std::uint64_t>(getpid());
  mine.word = reinterpret_cast<std::uintptr_t>(&word);
  std::atomic_ref{mine.ready}.store(1, std::memory_order_release);
  await_word(other.ready, 1);
  return ping_pong(
      role, 100,
      [&](std::uint64_t turn) {
        if (turn != 0) await_word(word, turn);
      },
      [&](std::uint64_t turn) {
        const iovec local{&turn, sizeof turn};
        const iovec remote{reinterpret_cast<void*>(other.word), sizeof turn};
        if (process_vm_writev(static_cast<pid_t>(other.pid), &local, 1, &remote, 1, 0) !=
            sizeof turn)
          die("process_vm_writev is denied");
      });
}

double copy(std::size_t bytes, int shared_fd) {
  std::byte* const to = map_shared(shared_fd, bytes);
  std::vector<std::byte> from(bytes);
  fill(from, Role::left);
  const std::size_t operations = (std::size_t{16} << 20) / bytes;
  const auto once = [&] {
    std::memcpy(to, from.data(), bytes);
    asm volatile("" : : "r"(to), "r"(from.data()) : "memory");  // Forces each copy.
  };
  for (int i = 0; i < 8; ++i) once();
  std::vector<double> spent;
  for (int slice = 0; slice < 25; ++slice) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < operations; ++i) once();
    spent.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  verify({to, bytes}, Role::left);
  std::ranges::nth_element(spent, spent.begin() + std::ssize(spent) / 2);
  return static_cast<double>(operations * bytes) / spent[spent.size() / 2] / (1 << 20);
}

}  // namespace verbatim::bench
