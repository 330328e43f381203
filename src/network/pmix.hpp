// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The little that we ask of PMIx, the launchers' interface: who am I, and one text of one
/// rank for all others. The library is loaded at run time, where there is a server to talk to.
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "verbatim/base/error.hpp"
#include "verbatim/network/identity.hpp"

namespace verbatim::detail {

/// From PMIx_Init to PMIx_Finalize. A process that ends without the latter is taken for one that
/// failed, and its job is killed. A forked child is not the process, and finalizes nothing.
class PmixClient {
 public:
  using Clock = std::chrono::steady_clock;

  /// `not_found` where this process has no PMIx server, or there is no libpmix.so.2.
  [[nodiscard]] static Result<std::shared_ptr<PmixClient>> open(Clock::time_point deadline);
  PmixClient(const PmixClient&) = delete;
  PmixClient& operator=(const PmixClient&) = delete;
  ~PmixClient();

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] Rank world() const noexcept { return world_; }
  [[nodiscard]] const std::string& job() const noexcept { return job_; }

  /// What fetch() of our rank gives to all.
  [[nodiscard]] Result<void> publish(std::string text);
  /// Waits until the rank has published. Without a fence: one rank that never comes would hold
  /// everybody there, and nobody could tell which it is.
  [[nodiscard]] Result<std::string> fetch(Rank rank, Clock::time_point deadline);

 private:
  PmixClient(Rank rank, std::string job) noexcept;

  Rank rank_;
  Rank world_ = 0;
  std::string job_;
  pid_t owner_;
};

}  // namespace verbatim::detail
