// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Which peers failed, and why.
#include "verbatim/base/language.hpp"

#include <expected>
#include <string>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/scope_error.hpp"
#include "verbatim/multi/peer.hpp"

namespace verbatim {

/// An operation that failed: the peer, the reason, and where it was posted.
struct PeerError : ScopeFailure {
  PeerIndex peer = 0;
};

/// Each peer that failed, once, with its first failure. Peers that are not listed have succeeded.
/// If the list contained an unknown peer (`not_found`), nothing was posted to any peer.
struct BulkError {
  std::vector<PeerError> peers{};  ///< At least one, in the order of the call.

  /// The error of the first peer, so that VERBATIM_TRY works in a function that returns a Result.
  operator Error() const noexcept { return peers.front(); }
};
using BulkResult = std::expected<void, BulkError>;

/// A line for each peer.
[[nodiscard]] std::string to_string(const BulkError& error);
/// The same with the causes of each.
[[nodiscard]] std::string explain(const BulkError& error);

/// For a scope over peers: a line for the closure, and one for each operation.
[[nodiscard]] std::string to_string(const ScopeError<Error, PeerError>& error);
[[nodiscard]] std::string explain(const ScopeError<Error, PeerError>& error);

}  // namespace verbatim
