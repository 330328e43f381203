// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What rank 0 publishes through PMIx: the addresses of its coordinator, and the secret.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/network/secret.hpp"

namespace verbatim::detail {

struct PmixCard {
  static constexpr std::uint32_t kVersion = 1;
  std::string loopback;                ///< loopback_id() of rank 0.
  std::vector<std::string> addresses;  ///< Hosts, in the order in which to try them.
  std::uint16_t port = 0;
  Secret secret;
};

[[nodiscard]] std::string to_json(const PmixCard& card);
/// Anything wrong with it is `malformed`, or `incompatible` for another version. No error shows the
/// secret.
[[nodiscard]] Result<PmixCard> pmix_card_from_json(std::string_view text);

/// The list for Identity::coordinator. It begins with the loopback interface for a process that
/// shares rank 0's; for others the loopback interface is not in the list.
[[nodiscard]] std::string coordinators(const PmixCard& card, std::string_view own_loopback);

}  // namespace verbatim::detail
