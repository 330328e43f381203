// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Ends a channel from any thread, at any time, even after the channel is gone.
#include <memory>

#include "verbatim/base/error.hpp"

namespace verbatim {

namespace detail {
struct Interrupt;
}

class Canceller {
 public:
  /// Ends the channel as if a deadline had passed, with `cancelled` as its cause. The thread that
  /// uses the channel does that at its next call, or at once if it is waiting.
  void cancel() const noexcept;
  /// The same with the given cause, for a program that learns of the peer's end by other means: for
  /// example `{.code = Errc::peer_lost}` from a cluster manager. The first call counts. See also
  /// ChannelOptions::news_timeout.
  void end(const Error& cause) const noexcept;
  /// The channel ends with this cause if its peer does not answer; otherwise it continues. For a
  /// program that can no longer learn of the peer's end: the channel does not wait for end().
  void end_if_unanswered(const Error& cause) const noexcept;

 private:
  friend class Channel;
  explicit Canceller(std::shared_ptr<detail::Interrupt> interrupt) noexcept;
  std::shared_ptr<detail::Interrupt> interrupt_;
};

}  // namespace verbatim
