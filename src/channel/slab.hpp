// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The slots of a completion queue, in one piece; channels claim runs of them.
///
/// Their number is a power of two, so that a foreign wr_id masked into the slab finds a slot whose
/// id differs. It reserves address space: slots that were never claimed take no memory.
///
/// Ownership: of the slots. The claimer returns a run; its slots keep their ids, so that handles of
///            earlier operations stay stale for ever.
/// Threads:   one at a time.
#include <cstdint>
#include <map>
#include <span>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/detail/slots.hpp"

namespace verbatim::detail {

class Slab {
 public:
  /// At least this many.
  [[nodiscard]] static Result<Slab> reserve(std::uint32_t slots);
  Slab(Slab&& other) noexcept;
  Slab& operator=(Slab&&) = delete;
  ~Slab();

  [[nodiscard]] Slot* slots() const noexcept { return slots_; }
  [[nodiscard]] std::uint64_t mask() const noexcept { return count_ - 1; }

  /// A run of free slots; `limit_exceeded` if there is none.
  [[nodiscard]] Result<std::span<Slot>> claim(std::uint32_t count);
  void give_back(std::span<Slot> run) noexcept;

 private:
  Slab(Slot* slots, std::uint32_t count) noexcept;
  void make_slots_up_to(std::uint32_t end) noexcept;

  Slot* slots_;
  std::uint32_t count_;
  std::uint32_t made_ = 0;  ///< This many slots are constructed already.
  std::uint64_t first_id_;  ///< Random, so that a handle of one slab matches none of another.
  std::map<std::uint32_t, std::uint32_t> free_;  ///< First slot and length of each free run.
};

}  // namespace verbatim::detail
