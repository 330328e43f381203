// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/multi/bulk_error.hpp"

#include "verbatim/base/explain.hpp"

namespace verbatim {
namespace {

std::string describe_peers(const std::vector<PeerError>& peers,
                           std::string (*describe)(const Error&), std::string text = {}) {
  for (const PeerError& each : peers) {
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    text += "peer " + std::to_string(each.peer) + ": " + describe(each);
  }
  return text;
}

std::string describe_scope(const ScopeError<Error, PeerError>& error,
                           std::string (*describe)(const Error&)) {
  return describe_peers(error.operations, describe,
                        error.closure ? "the closure: " + describe(*error.closure) : "");
}

std::string in_a_line(const Error& error) { return to_string(error); }
std::string with_causes(const Error& error) { return explain(error); }

}  // namespace

std::string to_string(const BulkError& error) { return describe_peers(error.peers, in_a_line); }

std::string explain(const BulkError& error) { return describe_peers(error.peers, with_causes); }

std::string to_string(const ScopeError<Error, PeerError>& error) {
  return describe_scope(error, in_a_line);
}

std::string explain(const ScopeError<Error, PeerError>& error) {
  return describe_scope(error, with_causes);
}

}  // namespace verbatim
