// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One completion queue, its slab, and the one place where completions are filed.
///
/// A channel has one of its own; several may share one. Whoever polls files for everybody: a slot
/// knows its queue, and the queue its channel.
///
/// Ownership: shared by its channels, and lives as long as one of them, or a result of one that
///            nobody has taken.
/// Threads:   one at a time, the same for all of its channels.
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "channel/slab.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/verbs/completion_channel.hpp"
#include "verbatim/verbs/completion_queue.hpp"
#include "verbatim/verbs/context.hpp"

namespace verbatim::detail {

class CompletionCore {
 public:
  /// `depth`: completions that may be there at once. `slots`: operations of all channels together.
  [[nodiscard]] static Result<std::shared_ptr<CompletionCore>> create(const Context& context,
                                                                      std::uint32_t depth,
                                                                      std::uint32_t slots);
  CompletionCore(Context on, CompletionChannel channel, CompletionQueue queue, Slab slab) noexcept;

  /// Polls one batch into the slots; how many there were, or negative: the queue is broken.
  int drain() noexcept;
  void file(const ibv_wc* polled, int count) noexcept;
  /// Takes all that is there, and with it the places that queue pairs have left when they were
  /// destroyed: only a look that finds nothing gives those free.
  [[nodiscard]] Result<void> sweep() noexcept;
  /// Why drain() was negative.
  [[nodiscard]] Error broken() const noexcept;

  const Context context;
  CompletionChannel events;
  CompletionQueue completions;
  Slab slab;

 private:
  ibv_cq* const cq_;
  Slot* const slots_;
  const std::uint64_t mask_;
};

}  // namespace verbatim::detail
