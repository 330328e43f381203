// SPDX-License-Identifier: MIT OR Apache-2.0
// Every rank sends a greeting to rank 0.
//
//   verbatim run -n 3 -- ./network     mpirun -n 3 ./network
//   ./network hosts.json 1             rank 1 of a file
#include <verbatim/network/bootstrap.hpp>
#include <verbatim/network/node.hpp>
#include <verbatim/verbatim.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

struct Greeting {
  std::uint32_t from;
  char text[28];
};

// [greet]
vb::Result<void> greet(vb::Node& node, const vb::ProtectionDomain& domain) {
  auto greeting = VERBATIM_TRY(domain.allocate<Greeting>(1));
  if (node.rank() != 0) {
    greeting.as<Greeting>()[0] = {.from = node.rank(), .text = "hello"};
    VERBATIM_TRY(node[0].send(greeting.gather()));
    return {};
  }
  for (vb::Rank rank = 1; rank < node.world(); ++rank) {
    VERBATIM_TRY(node[rank].receive(greeting.scatter()));
    std::printf("rank %u says %s\n", greeting.as<Greeting>()[0].from,
                greeting.as<Greeting>()[0].text);
  }
  return {};
}

vb::Result<void> run(const vb::Identity& identity) {
  auto context = VERBATIM_TRY(identity.device ? vb::open_device(*identity.device)  // from the file
                                              : vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto node = VERBATIM_TRY(vb::Node::join(domain, identity));
  VERBATIM_TRY(greet(node, domain));
  return node.leave();
}
// [/greet]

vb::Result<vb::Identity> who_am_i(int count, char** arguments) {
  if (count < 3) return vb::Bootstrap::find(30s);
  const auto network = VERBATIM_TRY(vb::load_network_config(arguments[1]));
  return vb::Bootstrap::config(network,
                               static_cast<vb::Rank>(std::strtoul(arguments[2], nullptr, 10)));
}

}  // namespace

int main(int count, char** arguments) {
  const auto identity = who_am_i(count, arguments);
  const auto done = identity ? run(*identity) : std::unexpected(identity.error());
  if (!done) std::fprintf(stderr, "%s\n", vb::explain(done.error()).c_str());
  return done ? 0 : 1;
}
