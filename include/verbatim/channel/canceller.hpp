// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Ends a channel from any thread, at any time, also after the channel is gone.
#include <memory>

#include "verbatim/base/error.hpp"

namespace verbatim {

namespace detail {
struct Interrupt;
}

class Canceller {
 public:
  /// The channel ends as if a deadline had passed, with `cancelled` as its cause: the thread that
  /// uses it does that at its next call, or at once if it waits.
  void cancel() const noexcept;
  /// The same with this cause, for a program that learns of the peer's end by means of its own:
  /// `{.code = Errc::peer_lost}` from a cluster's manager, say. The first call counts. See also
  /// ChannelOptions::news_timeout.
  void end(const Error& cause) const noexcept;

 private:
  friend class Channel;
  explicit Canceller(std::shared_ptr<detail::Interrupt> interrupt) noexcept;
  std::shared_ptr<detail::Interrupt> interrupt_;
};

}  // namespace verbatim
