// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Finds the coordinator among the addresses of an Identity, and is admitted by it.
///
/// It tries each address in turn, repeatedly until the deadline, as long as it makes sense: the
/// coordinator may start later. If something else is behind an address (another job, another
/// version), it tries the next. A refusal by the right coordinator is final.
#include <chrono>

#include "channel/private_descriptor.hpp"
#include "network/messages.hpp"
#include "network/secure_stream.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/network/exchanger.hpp"
#include "verbatim/network/identity.hpp"

namespace verbatim::detail {

struct Welcomed {
  PrivateDescriptor socket;
  SecureStream stream;  ///< May hold frames that came with the welcome.
  WelcomeMessage welcome;
};
[[nodiscard]] Result<Welcomed> dial_coordinator(const Identity& identity,
                                                const JoinOptions& options,
                                                std::chrono::steady_clock::time_point deadline);

/// What a FailedMessage means to the caller of `operation`.
[[nodiscard]] Error failure_of(const FailedMessage& message, const char* operation) noexcept;

}  // namespace verbatim::detail
