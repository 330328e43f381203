// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim doctor --listen`: the other side of `verbatim doctor PEER`.
#include <cstdint>
#include <string>

#include "reach.hpp"

namespace verbatim::cli {

struct DoctorListenOptions {
  std::string address = "127.0.0.1";  ///< A host; others can reach us only if the user says so.
  std::uint16_t port = kDoctorPort;   ///< 0: any that is free.
  std::uint32_t clients = 0;          ///< Ends after this number; 0: never.
  bool json = false;
  ReachOptions reach{};
};

/// Prints where it listens, and a line for each client. Until SIGINT or SIGTERM, or the last
/// client.
[[nodiscard]] int listen_and_serve(const DoctorListenOptions& options);

}  // namespace verbatim::cli
