// SPDX-License-Identifier: MIT OR Apache-2.0
#include <memory>
#include <utility>

#include "channel/socket_address.hpp"
#include "network/bootstrap_address.hpp"
#include "network/pmix.hpp"
#include "network/pmix_card.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/network/bootstrap.hpp"
#include "verbatim/network/coordinator.hpp"

namespace verbatim {
namespace {

constexpr const char* kBootstrapPmixOperation = "bootstrap through PMIx";

Result<std::shared_ptr<Coordinator>> open_coordinator(const detail::PmixClient& client,
                                                      const Secret& secret) {
  CoordinatorOptions options{
      .world = client.world(), .listen = "[::]:0", .secret = secret, .job = client.job()};
  auto coordinator = Coordinator::open(options);
  if (!coordinator) {  // The machine has no IPv6.
    options.listen = "0.0.0.0:0";
    coordinator = Coordinator::open(options);
  }
  if (!coordinator) return std::unexpected(coordinator.error());
  return std::make_shared<Coordinator>(*std::move(coordinator));
}

}  // namespace

Result<Identity> Bootstrap::pmix(Timeout timeout) {
  const auto deadline = detail::deadline_after(timeout);
  const auto client = VERBATIM_TRY(detail::PmixClient::open(deadline));
  Identity identity;
  identity.rank = client->rank();
  identity.world = client->world();
  identity.job = client->job();
  identity.launcher = client;
  Error failed{};
  if (identity.rank == 0) {
    const Secret secret = Secret::random();
    auto hosted = open_coordinator(*client, secret);
    std::string text;  // Stays empty on failure, so that the others do not wait.
    if (hosted) {
      identity.hosted = *std::move(hosted);
      const detail::PmixCard card{.loopback = detail::loopback_id(),
                                  .addresses = detail::own_addresses(),
                                  .port = identity.hosted->port(),
                                  .secret = secret};
      text = to_json(card);
    } else {
      failed = hosted.error();
    }
    VERBATIM_TRY(client->publish(std::move(text)));
  }
  if (identity.rank == 0 && !identity.hosted) return std::unexpected(failed);
  const std::string text = VERBATIM_TRY(client->fetch(0, deadline));
  if (text.empty())
    return std::unexpected(Error{
        .code = Errc::peer_lost, .operation = kBootstrapPmixOperation, .field = "coordinator"});
  const auto card = VERBATIM_TRY(detail::pmix_card_from_json(text));
  identity.secret = card.secret;
  identity.coordinator = coordinators(card, detail::loopback_id());
  if (identity.coordinator.empty())
    return std::unexpected(Error{.code = Errc::not_found,
                                 .operation = kBootstrapPmixOperation,
                                 .field = "address of rank 0"});
  return identity;
}

}  // namespace verbatim
