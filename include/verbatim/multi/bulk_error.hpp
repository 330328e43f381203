// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What went wrong with which peers.
#include <expected>
#include <string>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/scope_error.hpp"
#include "verbatim/multi/peer.hpp"

namespace verbatim {

/// An operation that failed: with which peer, why, and where it was posted.
struct PeerError : ScopeFailure {
  PeerIndex peer = 0;
};

/// Each peer with which something failed, once, with what came first. Who is not named has
/// succeeded. Of a list that names no such peer (`not_found`) nothing was posted, to nobody.
struct BulkError {
  std::vector<PeerError> peers{};  ///< At least one, in the order of the call.

  /// What the first of them has: so that VERBATIM_TRY takes it into a function that returns a
  /// Result.
  operator Error() const noexcept { return peers.front(); }
};
using BulkResult = std::expected<void, BulkError>;

/// A line for each peer.
[[nodiscard]] std::string to_string(const BulkError& error);
/// The same with the causes of each.
[[nodiscard]] std::string explain(const BulkError& error);

/// Of a scope over peers: a line for the closure, and one for each operation.
[[nodiscard]] std::string to_string(const ScopeError<Error, PeerError>& error);
[[nodiscard]] std::string explain(const ScopeError<Error, PeerError>& error);

}  // namespace verbatim
