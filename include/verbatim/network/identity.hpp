// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Who a process is in its job, and where the job's coordinator is.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "verbatim/network/secret.hpp"

namespace verbatim {

class Coordinator;

/// A process's number in its job, from 0.
using Rank = std::uint32_t;

struct Identity {
  Rank rank = 0;
  Rank world = 1;  ///< The number of ranks.
  /// "host:port", or several separated by commas, which are tried in turn until one answers.
  std::string coordinator{};
  /// Without one, only a coordinator on this machine's loopback is accepted.
  std::optional<Secret> secret = std::nullopt;
  std::string job = "verbatim";                      ///< Keeps jobs apart.
  std::optional<std::string> device = std::nullopt;  ///< The device of this rank.
  std::shared_ptr<Coordinator> hosted = nullptr;     ///< Set if this process coordinates.
  /// What tells the launcher that this process has left the job (Bootstrap::pmix). The last copy
  /// does.
  std::shared_ptr<const void> launcher = nullptr;
};

}  // namespace verbatim
