// SPDX-License-Identifier: MIT OR Apache-2.0
// What ranks may say in any order: the coordinator drops who breaks the protocol, and lives.
//
// The input is a list of {client:8 length:8 plaintext}; a length of 255 ends the client.
#include "network/membership.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "fuzz/fuzz.hpp"

using namespace verbatim;
using namespace verbatim::detail;

namespace {

class Output final : public MembershipOutput {
 public:
  void send(ClientId client, Bytes plaintext) override {
    fuzz::require(!closed.contains(client) && !gone.contains(client));
    fuzz::require(!plaintext.empty() && plaintext.size() <= kMaxPlaintext);
  }
  void close(ClientId client) override { closed.insert(client); }
  void call_soon() override { calls = true; }
  std::set<ClientId> closed{};
  std::set<ClientId> gone{};
  bool calls = false;
};

}  // namespace

VERBATIM_FUZZ(bytes) {
  Output output;
  Membership membership{3, 5000, output};
  while (bytes.size() >= 2) {
    const auto client = std::to_integer<ClientId>(bytes[0] & std::byte{15});
    const auto length = std::to_integer<std::size_t>(bytes[1]);
    bytes = bytes.subspan(2);
    if (client == 15 && std::exchange(output.calls, false)) membership.tell_departures();
    if (output.closed.contains(client) || output.gone.contains(client)) continue;
    if (length == 255) {
      output.gone.insert(client);
      membership.ended(client, Departed::silent);
      continue;
    }
    const auto plaintext = bytes.first(std::min(length, bytes.size()));
    bytes = bytes.subspan(plaintext.size());
    if (membership.handle(client, plaintext)) continue;
    output.gone.insert(client);
    membership.ended(client, Departed::connection_ended);
  }
}
