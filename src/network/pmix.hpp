// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The small part of PMIx, the launchers' interface, that we use: the own rank, and one text
/// that one rank publishes to all others. The library is loaded at run time, if there is a server.
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "verbatim/base/error.hpp"
#include "verbatim/network/identity.hpp"

namespace verbatim::detail {

/// From PMIx_Init to PMIx_Finalize. If a process exits without the latter, the launcher counts it
/// as failed and kills its job. A forked child is not that process, and finalizes nothing.
class PmixClient {
 public:
  using Clock = std::chrono::steady_clock;

  /// `not_found` if this process has no PMIx server, or there is no libpmix.so.2.
  [[nodiscard]] static Result<std::shared_ptr<PmixClient>> open(Clock::time_point deadline);
  PmixClient(const PmixClient&) = delete;
  PmixClient& operator=(const PmixClient&) = delete;
  ~PmixClient();

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] Rank world() const noexcept { return world_; }
  [[nodiscard]] const std::string& job() const noexcept { return job_; }

  /// What fetch() of our rank returns to all.
  [[nodiscard]] Result<void> publish(std::string text);
  /// Waits until the rank has published. There is no fence: a rank that never comes would block
  /// all others there, and none of them could name it.
  [[nodiscard]] Result<std::string> fetch(Rank rank, Clock::time_point deadline);

 private:
  PmixClient(Rank rank, std::string job) noexcept;

  Rank rank_;
  Rank world_ = 0;
  std::string job_;
  pid_t owner_;
};

}  // namespace verbatim::detail
