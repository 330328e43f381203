// SPDX-License-Identifier: MIT OR Apache-2.0
#include <memory>
#include <utility>

#include "channel/socket_address.hpp"
#include "network/bootstrap_address.hpp"
#include "network/bootstrap_secret.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/network/bootstrap.hpp"
#include "verbatim/network/coordinator.hpp"

namespace verbatim {
namespace {

constexpr const char* kBootstrapConfigOperation = "bootstrap from a network config";

Error wrong(const char* field, std::uint64_t value) noexcept {
  return {.code = Errc::invalid_argument,
          .operation = kBootstrapConfigOperation,
          .field = field,
          .value = value};
}

/// The address under which rank 0 dials its own coordinator. An address to listen on may be one
/// that cannot be dialled.
Result<std::string> own_address(const Coordinator& coordinator) {
  const auto where =
      VERBATIM_TRY(detail::parse_host_port(coordinator.address(), kBootstrapConfigOperation));
  if (!detail::is_wildcard(where.host)) return coordinator.address();
  return detail::host_and_port(where.host == "::" ? "::1" : "127.0.0.1", coordinator.port());
}

}  // namespace

Result<Identity> Bootstrap::config(const NetworkConfig& network, Rank rank,
                                   const ConfigOptions& options) {
  if (rank >= network.world()) {
    Error beyond = wrong("rank", rank);
    beyond.limit = network.world() - 1;
    return std::unexpected(beyond);
  }
  const NodeConfig& first = network[0];
  if (first.hostname.empty()) return std::unexpected(wrong("hostname of rank 0", 0));
  if (first.port == 0) return std::unexpected(wrong("port of rank 0", 0));

  Identity identity;
  identity.rank = rank;
  identity.world = network.world();
  identity.job = options.job;
  identity.coordinator = detail::host_and_port(first.hostname, first.port);
  if (!network[rank].ibdev.empty()) identity.device = network[rank].ibdev;
  identity.secret = options.secret;
  if (!identity.secret)
    identity.secret = VERBATIM_TRY(detail::secret_of_environment(kBootstrapConfigOperation));
  VERBATIM_TRY(detail::check_coordinators(identity.coordinator, identity.secret.has_value(),
                                          kBootstrapConfigOperation, "hostname of rank 0"));
  if (rank != 0) return identity;

  const CoordinatorOptions coordinator{
      .world = identity.world,
      .listen = options.listen.empty() ? identity.coordinator : options.listen,
      .secret = identity.secret,
      .job = identity.job};
  identity.hosted = std::make_shared<Coordinator>(VERBATIM_TRY(Coordinator::open(coordinator)));
  identity.coordinator = VERBATIM_TRY(own_address(*identity.hosted));
  return identity;
}

}  // namespace verbatim
