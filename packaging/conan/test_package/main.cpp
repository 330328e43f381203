// SPDX-License-Identifier: MIT OR Apache-2.0
// Two channels of this process on the software device, connected and closed again.
#include <verbatim/verbatim.hpp>

#include <cstdio>

namespace vb = verbatim;

namespace {

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device("soft0"));
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [left, right] = VERBATIM_TRY(vb::connect_pair(domain));
  return {};
}

}  // namespace

int main() {
  const auto outcome = run();
  if (!outcome) std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
  return outcome ? 0 : 1;
}
