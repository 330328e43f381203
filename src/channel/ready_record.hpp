// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The second record of a meeting: "I am connected to the one whose nonce this is".
#include <cstddef>
#include <cstdint>
#include <span>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel.hpp"

namespace verbatim::detail {

/// `nonce` is the writer's own, `seen` the one in the endpoint that it connected to.
[[nodiscard]] ReadyRecord encode_ready(std::uint64_t nonce, std::uint64_t seen) noexcept;

/// Checks that the record is from the peer with `peer_nonce`, and that this peer is connected to
/// the channel with `own_nonce`. Bytes that are not such a record are `malformed`; a valid record
/// of another connection is `incompatible`. The error names the field.
[[nodiscard]] Result<void> check_ready(std::span<const std::byte> record, std::uint64_t own_nonce,
                                       std::uint64_t peer_nonce) noexcept;

}  // namespace verbatim::detail
