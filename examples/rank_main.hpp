// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the examples with ranks have in common: join, do something, leave.
#include <verbatim/network/node.hpp>
#include <verbatim/verbatim.hpp>

#include <cstdio>

/// The rest of main(). `body` gets the node and its protection domain.
template <class Body>
int as_rank(Body body, const verbatim::NodeOptions& options = {}) {
  const auto run = [&]() -> verbatim::Result<void> {
    auto context = VERBATIM_TRY(verbatim::open_device());
    auto domain = VERBATIM_TRY(context.allocate_domain());
    auto node = VERBATIM_TRY(verbatim::Node::join(domain, options));
    VERBATIM_TRY(body(node, domain));
    return node.leave();
  };
  const auto done = run();
  if (!done) std::fprintf(stderr, "%s\n", verbatim::explain(done.error()).c_str());
  return done ? 0 : 1;
}
