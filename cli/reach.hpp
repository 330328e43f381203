// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Can two machines talk? `verbatim doctor PEER` and `verbatim doctor --listen`.
///
/// Both sides say on a TCP connection which (device, port, GID) they can use. For each pair of
/// these the client sends an endpoint, the server answers with one, both connect, and a message
/// goes there and back and is compared. All waits have deadlines, and each side judges all that
/// the other says.
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "channel/private_descriptor.hpp"
#include "device_report.hpp"
#include "finding.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::cli {

inline constexpr std::uint16_t kDoctorPort = 7790;

/// Where one side may be reached.
struct Candidate {
  std::string device;
  std::uint8_t port = 1;
  std::optional<std::uint32_t> gid_index{};  ///< None on an InfiniBand port without GIDs.
  std::string gid{};                         ///< For people, with its type.

  friend bool operator==(const Candidate&, const Candidate&) = default;
};
/// "rxe0 port 1 GID 1 (RoCEv2 ::ffff:10.77.0.1)".
[[nodiscard]] std::string to_string(const Candidate& candidate);

/// Every address of every ACTIVE port of every device with reliable connections.
[[nodiscard]] std::vector<Candidate> usable_candidates(const DevicesReport& report);

/// The first thing that each side says.
[[nodiscard]] nlohmann::json greeting(const std::vector<Candidate>& candidates);
/// `malformed` and what is wrong.
[[nodiscard]] Result<std::vector<Candidate>> read_greeting(const nlohmann::json& object);

struct ReachOptions {
  std::chrono::nanoseconds pair_timeout = std::chrono::seconds{2};
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
};

/// Tests each pair with the doctor that listens at `peer`, and tells each finding at once. The last
/// one sums up; it is an error if no pair works.
void reach(std::string_view peer, const std::vector<Candidate>& ours, const ReachOptions& options,
           const std::function<void(const Finding&)>& tell);

/// One client, until it goes, is silent for too long or talks something else: how many pairs were
/// tested and how many worked.
struct Served {
  unsigned tested = 0;
  unsigned worked = 0;
};
[[nodiscard]] Result<Served> serve(detail::PrivateDescriptor client,
                                   const std::vector<Candidate>& ours, const ReachOptions& options);

}  // namespace verbatim::cli
