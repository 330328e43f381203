// SPDX-License-Identifier: MIT OR Apache-2.0
// What anybody can send: the first bytes of a session, to the coordinator and to a rank.
#include "network/hello.hpp"

#include <algorithm>

#include "fuzz/fuzz.hpp"
#include "network/secure_stream.hpp"

using namespace verbatim::detail;

VERBATIM_FUZZ(bytes) {
  if (bytes.size() >= kHelloBytes) {
    const auto hello = decode_hello(bytes.first<kHelloBytes>());
    verbatim::fuzz::require(!hello || hello->version == kWireVersion);
  }
  for (const SessionEnd end : {SessionEnd::client, SessionEnd::coordinator}) {
    SecureStream stream{end, {}, job_id("verbatim")};
    stream.outgoing().clear();
    std::size_t at = 0;
    for (;;) {
      const auto frame = stream.next();
      if (!frame) break;
      verbatim::fuzz::require(!*frame);  // Nobody can guess a frame that is authentic.
      if (at == bytes.size()) break;
      const std::size_t size = std::min({stream.room(), bytes.size() - at, std::size_t{97}});
      stream.feed(bytes.subspan(at, size));
      at += size;
      if (size == 0) break;
    }
    // A stranger gets a hello at most.
    verbatim::fuzz::require(stream.outgoing().size() <= kHelloBytes);
  }
}
