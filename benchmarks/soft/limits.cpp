// SPDX-License-Identifier: MIT OR Apache-2.0
// What the machine itself can do: the figures of the device are held against these.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cases.hpp"

namespace verbatim::bench {
namespace {

std::byte* map_shared(int fd, std::size_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) die("cannot map the shared memory");
  return static_cast<std::byte*>(mapped);
}

}  // namespace

double hand_off(Role role, int shared_fd) {
  constexpr std::size_t kSlices = 201;
  constexpr std::uint64_t kRounds = 1000;
  auto& word = *reinterpret_cast<std::uint64_t*>(map_shared(shared_fd, 4096));
  const std::atomic_ref<std::uint64_t> line{word};
  const std::uint64_t mine = role == Role::left ? 0 : 1;  // Left makes even numbers odd.
  std::vector<double> us;
  std::uint64_t turn = mine;
  for (std::size_t slice = 0; slice < kSlices; ++slice) {
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < kRounds; ++i, turn += 2) {
      while (line.load(std::memory_order_acquire) != turn) {
      }
      line.store(turn + 1, std::memory_order_release);
    }
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
                 (2 * kRounds));
  }
  std::ranges::nth_element(us, us.begin() + std::ssize(us) / 2);
  return us[us.size() / 2];
}

double copy(std::size_t bytes, int shared_fd) {
  std::byte* const to = map_shared(shared_fd, bytes);
  std::vector<std::byte> from(bytes);
  fill(from, Role::left);
  const std::size_t operations = (std::size_t{16} << 20) / bytes;
  const auto once = [&] {
    std::memcpy(to, from.data(), bytes);
    asm volatile("" : : "r"(to), "r"(from.data()) : "memory");  // Each copy is really made.
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
