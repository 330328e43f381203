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

/// A process's number in its job, from 0 on.
using Rank = std::uint32_t;

struct Identity {
  Rank rank = 0;
  Rank world = 1;  ///< How many ranks there are.
  /// "host:port", several separated by commas: tried in turn until one answers.
  std::string coordinator{};
  /// Without one, only a coordinator on this machine's loopback is talked to.
  std::optional<Secret> secret = std::nullopt;
  std::string job = "verbatim";                      ///< Keeps jobs apart.
  std::optional<std::string> device = std::nullopt;  ///< Which device this rank uses.
  std::shared_ptr<Coordinator> hosted = nullptr;     ///< Set where this process coordinates.
  /// What a launcher wants to be told when this process has left the job (Bootstrap::pmix): it is,
  /// with the last copy.
  std::shared_ptr<const void> launcher = nullptr;
};

}  // namespace verbatim
