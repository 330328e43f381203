// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A channel on a completion core that it may share with others.
#include <cstdint>
#include <memory>

#include "channel/completion_core.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/verbs/protection_domain.hpp"

namespace verbatim::detail {

struct ChannelState;

struct Depths {
  std::uint32_t sends;
  std::uint32_t receives;
  std::uint32_t keepalives = 0;  ///< 1 if there is one.
  /// Including a marker for each queue.
  [[nodiscard]] std::uint32_t slots() const noexcept { return sends + receives + 2 + keepalives; }
};

/// The caller owns it until ChannelState::abandon(). `limit_exceeded` if the core has no room.
[[nodiscard]] Result<ChannelState*> prepare_on(const std::shared_ptr<CompletionCore>& core,
                                               const ProtectionDomain& domain,
                                               const ChannelOptions& options, Depths depths);

}  // namespace verbatim::detail
