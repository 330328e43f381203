// SPDX-License-Identifier: MIT OR Apache-2.0
#include <array>

#include "fixture.hpp"

namespace verbatim::overhead {

/// The verbs layer: a raw post with its checks, and a poll.
void queue_pair(Fixture& fixture, long operations) {
  for (long i = 0; i < operations; ++i) {
    const WrId id{static_cast<std::uint64_t>(i)};
    const auto posted =
        unsafe::post(fixture.queue_pair, Send{fixture.region.gather(fixture.message)}, id);
    if (!posted) report(posted);

    std::array<Completion, 1> done;
    for (;;) {
      const auto count = fixture.queue.poll(done);
      if (!count) report(count);
      if (*count != 0) break;
    }
    if (!done[0].ok() || done[0].id() != id) report(done[0]);
  }
}

}  // namespace verbatim::overhead
