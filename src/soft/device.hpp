// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The devices soft0, soft1, …: what they say about themselves, and opening them.
///
/// `VERBATIM_SOFT_DEVICES` says how many there are (1), `VERBATIM_SOFT_LINK` whether their ports
/// are InfiniBand or Ethernet (`ib`, `eth`), `VERBATIM_SOFT=0` hides them.
#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "soft/objects.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::engine {

inline constexpr std::uint32_t kMaxRequests = 16384;
inline constexpr std::uint32_t kMaxInline = 1024;
inline constexpr std::uint32_t kMaxReadAtomic = 128;
inline constexpr std::uint32_t kMaxMessage = 1u << 30;
/// The MTU, less what precedes a datagram in the ring's slot.
inline constexpr std::uint32_t kDatagramBytes = 4096;
inline constexpr std::uint32_t kMaxCompletions = 1u << 20;

[[nodiscard]] bool is_ethernet(const Device& device) noexcept;

// Verbs.
ibv_device** get_device_list(int* count) noexcept;
void free_device_list(ibv_device** list) noexcept;
__be64 get_device_guid(ibv_device* device) noexcept;
ibv_context* open_device(ibv_device* device) noexcept;
/// Why this thread's last open_device failed, if errno does not say it all.
[[nodiscard]] std::optional<Error> open_failure() noexcept;
int close_device(ibv_context* context) noexcept;
int query_device(ibv_context* context, ibv_device_attr_ex* attributes) noexcept;
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) noexcept;
ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t max) noexcept;
int query_partition_key(ibv_context* context, std::uint8_t port, int index, __be16* key) noexcept;
std::uint64_t fabric_id(ibv_context* context) noexcept;
ibv_pd* allocate_domain(ibv_context* context) noexcept;
int free_domain(ibv_pd* domain) noexcept;
ibv_ah* create_address_handle(ibv_pd* domain, ibv_ah_attr* attributes) noexcept;
int destroy_address_handle(ibv_ah* handle) noexcept;

}  // namespace verbatim::engine
