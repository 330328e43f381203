// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/lock_rank.hpp"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace verbatim::engine {
namespace {

constexpr std::size_t kMostHeld = 16;
struct Held {
  LockRank rank;
  bool tried;
  std::source_location where;
};
struct HeldLocks {
  std::array<Held, kMostHeld> all;
  std::size_t count;
};
// Trivial, so that a thread of the program needs no allocation for it.
constinit thread_local HeldLocks held{};

[[noreturn]] void out_of_order(const Held& former, LockRank rank,
                               const std::source_location& where) noexcept {
  std::fprintf(stderr,
               "verbatim: lock of rank %u taken at %s:%u while one of rank %u is held, taken at "
               "%s:%u; see soft/shared/lock_rank.hpp\n",
               static_cast<unsigned>(rank), where.file_name(), where.line(),
               static_cast<unsigned>(former.rank), former.where.file_name(), former.where.line());
  std::abort();
}

}  // namespace

bool ranks_are_checked() noexcept { return kRanksChecked; }

void rank_taken(LockRank rank, bool tried, const std::source_location& where) noexcept {
  for (std::size_t i = 0; !tried && i < held.count; ++i)
    if (held.all[i].rank >= rank) out_of_order(held.all[i], rank, where);
  if (held.count == kMostHeld) out_of_order(held.all[kMostHeld - 1], rank, where);
  held.all[held.count++] = {rank, tried, where};
}

void rank_released(LockRank rank) noexcept {
  for (std::size_t i = held.count; i-- > 0;) {
    if (held.all[i].rank != rank) continue;
    for (std::size_t j = i + 1; j < held.count; ++j) held.all[j - 1] = held.all[j];
    --held.count;
    return;
  }
  // Another thread took it. This is possible for wr_complete.
}

void forget_ranks() noexcept { held.count = 0; }

}  // namespace verbatim::engine
