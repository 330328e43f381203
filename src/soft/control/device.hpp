// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The devices soft0, soft1, …: their attributes, and opening them.
///
/// Owns the devices, which live as long as the process, and creates contexts. Any thread. Opening
/// takes `engine`, then `contexts`. Not hot.
///
/// `VERBATIM_SOFT_DEVICES` is their number (default 1). `VERBATIM_SOFT_LINK` says whether their
/// ports are InfiniBand or Ethernet (`ib`, `eth`). `VERBATIM_SOFT=0` hides them.
#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "soft/shared/objects.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::engine {

inline constexpr std::uint32_t kMaxRequests = 16384;
inline constexpr std::uint32_t kMaxInline = 1024;
inline constexpr std::uint32_t kMaxReadAtomic = 128;
inline constexpr std::uint32_t kMaxMessage = 1u << 30;
/// The longest datagram: the MTU.
inline constexpr std::uint32_t kDatagramBytes = 4096;
inline constexpr std::uint32_t kMaxCompletions = 1u << 20;

/// Where the kernel describes devices to programs that do not ask the verbs.
inline constexpr char kSystemDevices[] = "/sys/class/infiniband";
inline constexpr char kSystemVerbs[] = "/sys/class/infiniband_verbs";
/// The size of a port's address table; not all entries are in use.
inline constexpr int kGidTable = 2;
/// The speed that a port reports: four lanes of 25 Gbit/s.
inline constexpr std::uint32_t kPortSpeedMbps = 100'000;

/// Whether the ports of our devices are Ethernet: all of them, or none.
[[nodiscard]] bool are_ports_ethernet() noexcept;
/// Whether an address can be that of a queue pair or an address handle: on Ethernet it has a global
/// part, and the index of our own GID names one that is there.
[[nodiscard]] bool is_usable(const ibv_ah_attr& address) noexcept;
/// 0 on Ethernet.
[[nodiscard]] std::uint16_t lid_of(const Device& device) noexcept;
/// Whether it is one of ours. Takes any pointer.
[[nodiscard]] bool is_soft(const ibv_device* device) noexcept;
/// The device with that number, or nullptr. Nothing need be open.
[[nodiscard]] const Device* find_device(std::uint32_t index) noexcept;
int describe_port(const Device& device, std::uint8_t port, ibv_port_attr* attributes) noexcept;
ssize_t describe_gids(const Device& device, ibv_gid_entry* entries, std::size_t max) noexcept;

// Verbs.
ibv_device** get_device_list(int* count) noexcept;
void free_device_list(ibv_device** list) noexcept;
__be64 get_device_guid(ibv_device* device) noexcept;
/// Fills in what the inline functions of verbs.h find in a context: see abi/context_operations.hpp.
using FillOperations = void (*)(verbs_context& context) noexcept;
ibv_context* open_device(ibv_device* device, FillOperations fill);
/// Why this thread's last open_device failed, if errno does not say everything.
[[nodiscard]] std::optional<Error> open_failure() noexcept;
int close_device(ibv_context* context) noexcept;
int query_device(ibv_context* context, ibv_device_attr_ex* attributes) noexcept;
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) noexcept;
ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t max) noexcept;
int query_partition_key(ibv_context* context, std::uint8_t port, int index, __be16* key) noexcept;
std::uint64_t fabric_id(ibv_context* context) noexcept;

}  // namespace verbatim::engine
