// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How two channels part: neither stops its device while the other may still need it.
///
/// A state machine that never waits: step() goes on as far as it can, wanted() says which
/// descriptor it waits for besides completions. Channel::close() drives it, an event loop could.
#include <poll.h>

#include <cstdint>

#include "channel/link.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

struct ChannelState;

class Leave {
 public:
  /// `link`: where the peers met; may be none.
  Leave(ChannelState& state, Link link) noexcept;

  /// Our own sends come to their end; then it says "done" on the link, and serves the device until
  /// the peer says so too. A peer that is gone is done. True: over. If the channel breaks
  /// meanwhile it is over, and the channel's `cause` says why.
  [[nodiscard]] bool step() noexcept;
  [[nodiscard]] pollfd wanted() const noexcept;
  /// When it is over.
  [[nodiscard]] const Result<void>& result() const noexcept { return result_; }
  /// Instead of all that, to a peer that has closed: we are done, too.
  [[nodiscard]] Result<void> answer() noexcept;
  /// When it took too long: what it waited for.
  [[nodiscard]] Error late() const noexcept;

 private:
  enum class Stage : std::uint8_t { finishing, telling, hearing, over };
  Stage finish_sends() noexcept;
  Stage tell() noexcept;
  Stage hear() noexcept;
  Stage end(const Result<void>& how) noexcept;

  ChannelState& state_;
  Link link_;  // Closed when all else is over.
  Stage stage_ = Stage::finishing;
  Result<void> result_{};
};

}  // namespace verbatim::detail
