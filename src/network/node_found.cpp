// SPDX-License-Identifier: MIT OR Apache-2.0
// Joins a job with the identity that Bootstrap::find() finds.
#include "verbatim/base/try.hpp"
#include "verbatim/network/bootstrap.hpp"
#include "verbatim/network/node.hpp"

namespace verbatim {

Result<Node> Node::join(const ProtectionDomain& domain, const NodeOptions& options) {
  return join(domain, VERBATIM_TRY(Bootstrap::find(options.timeout)), options);
}

}  // namespace verbatim
