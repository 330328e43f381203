// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/pmix_card.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "network/bootstrap_address.hpp"
#include "verbatim/base/try.hpp"
#include "verbs/json_reader.hpp"

namespace verbatim::detail {
namespace {

constexpr const char* kPmixCardOperation = "coordinator's card (PMIx)";
constexpr std::size_t kMaxAddresses = 256;

}  // namespace

std::string to_json(const PmixCard& card) {
  return nlohmann::ordered_json{{"version", PmixCard::kVersion},
                                {"loopback", card.loopback},
                                {"addresses", card.addresses},
                                {"port", card.port},
                                {"secret", card.secret.to_hex()}}
      .dump();
}

Result<PmixCard> pmix_card_from_json(std::string_view text) {
  const auto object = VERBATIM_TRY(JsonReader::parse(kPmixCardOperation, text));
  const JsonReader reader{kPmixCardOperation, object};
  const auto version = VERBATIM_TRY(reader.number<std::uint32_t>("version"));
  if (version != PmixCard::kVersion)
    return std::unexpected(Error{.code = Errc::incompatible,
                                 .operation = kPmixCardOperation,
                                 .field = "version",
                                 .value = version,
                                 .limit = PmixCard::kVersion});
  const auto loopback = VERBATIM_TRY(reader.string("loopback"));
  std::vector<std::string> addresses;
  for (const auto& each : *VERBATIM_TRY(reader.array("addresses", kMaxAddresses))) {
    if (!each.is_string()) return std::unexpected(reader.wrong("addresses", each.type_name()));
    addresses.push_back(each.get<std::string>());
  }
  const auto port = VERBATIM_TRY(reader.number<std::uint16_t>("port"));
  const auto digits = VERBATIM_TRY(reader.string("secret"));
  auto secret = Secret::from_hex(digits);
  if (!secret) return std::unexpected(reader.wrong("secret", "not 64 hex digits"));
  return PmixCard{.loopback = std::string{loopback},
                  .addresses = std::move(addresses),
                  .port = port,
                  .secret = *std::move(secret)};
}

std::string coordinators(const PmixCard& card, std::string_view own_loopback) {
  std::string list;
  if (!own_loopback.empty() && own_loopback == card.loopback)
    list = host_and_port("127.0.0.1", card.port);
  for (const std::string& address : card.addresses)
    (list += list.empty() ? "" : ",") += host_and_port(address, card.port);
  return list;
}

}  // namespace verbatim::detail
