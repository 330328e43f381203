// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Numbers with a meaning: no arithmetic, no implicit conversion, no swapped arguments.
#include "verbatim/base/language.hpp"

#include <cstdint>

namespace verbatim {

/// The caller's id for a work request; the completion returns it.
enum class WrId : std::uint64_t {};

/// A queue pair's number, 24 bits.
enum class QpNumber : std::uint32_t {};

/// Grants access to a region from this host. Available only through `verbatim::unsafe`.
enum class LocalKey : std::uint32_t {};

/// Grants access to a region from a peer.
enum class RemoteKey : std::uint32_t {};

/// An InfiniBand port's local identifier; 0 if the link layer has none.
enum class Lid : std::uint16_t {};

/// A partition key: 15 bits of partition, the top bit set for a full member.
enum class PartitionKey : std::uint16_t {};

/// The key that a datagram must carry to be accepted.
enum class QueueKey : std::uint32_t {};

}  // namespace verbatim
