// SPDX-License-Identifier: MIT OR Apache-2.0
// The ranks of a job as a file lists them, and rank 0's card as PMIx carries it.
#include <string_view>

#include "fuzz/fuzz.hpp"
#include "network/pmix_card.hpp"
#include "verbatim/network/network_config.hpp"

VERBATIM_FUZZ(bytes) {
  using verbatim::fuzz::require;
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  if (const auto raw = verbatim::RawNetworkConfig::from_json(text)) {
    const auto written = to_json(*raw);
    const auto again = verbatim::RawNetworkConfig::from_json(written);
    require(again && to_json(*again) == written);
    if (const auto network = raw->build()) {
      require(network->world() == raw->nodes().size());
      for (verbatim::Rank rank = 0; rank < network->world(); ++rank)
        require((*network)[rank].rankid == rank);
    }
  }
  if (const auto card = verbatim::detail::pmix_card_from_json(text)) {
    const auto again = verbatim::detail::pmix_card_from_json(to_json(*card));
    require(again && again->secret == card->secret && again->addresses == card->addresses);
    require(coordinators(*card, "other").size() <= coordinators(*card, card->loopback).size());
  }
}
