// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The `null` provider: devices without a wire, for tests and for measuring overhead.
///
/// A send completes inside its post and moves no data; a receive is counted and never completes. So
/// the cost of a program above this provider is the cost of the library. The provider is a separate
/// shared object that is always compiled in the same way (see CMakeLists.txt here), because it must
/// cost the same whichever compiler built the program.
///
/// It also keeps accounts, so that tests can prove correct use: it counts every object, and refuses
/// with EBUSY to destroy one that is still in use or has an event that was not acknowledged.
///
/// The depth of a queue is that of the send queue: a post beyond it fails with ENOMEM until a
/// completion was polled. Completion queues do not overflow.
///
/// Threads: for each completion queue, one thread at a time may post, and one may poll; everything
/// else may be called from any thread. The knobs are not guarded: set them before the library reads
/// them.
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "verbatim/provider/provider.hpp"

namespace verbatim {

/// What the devices claim to be. Read at each call; `verbatim_null_knobs() = {}` restores the
/// defaults.
struct NullKnobs {
  static constexpr std::size_t kMaxDevices = 8;
  [[gnu::visibility("default")]] NullKnobs() noexcept;

  std::size_t device_count = 1;  ///< null0, null1, ... up to kMaxDevices.
  ibv_node_type node_type = IBV_NODE_CA;
  ibv_transport_type transport_type = IBV_TRANSPORT_IB;
  Transport transport = Transport::hardware;
  std::uint64_t fabric_id = 0;

  ibv_device_attr device{};
  ibv_port_attr port{};                  ///< The same for every port: ACTIVE, InfiniBand, LID 1.
  std::array<ibv_gid_entry, 16> gids{};  ///< The first: fe80::1, on port 1.
  std::size_t gid_count = 1;
  std::array<std::uint16_t, 16> partition_keys{0xffff};  ///< Host order; port.pkey_tbl_len of them.

  std::uint32_t max_inline_bytes = 256;
  std::uint32_t extra_depth = 0;  ///< How much deeper than requested queues are made.
  int completion_vectors = 4;
  /// How long destroying an object waits until its events are acknowledged. Then it is refused.
  std::chrono::milliseconds acknowledgement{30'000};
};

}  // namespace verbatim

[[gnu::visibility("default")]] verbatim::NullKnobs& verbatim_null_knobs();

extern "C" {

const verbatim::Provider* verbatim_null_provider();

/// How many objects of any kind, device lists and memory were created and not destroyed.
int verbatim_null_live_objects();

/// Queues an asynchronous event, as if the device had raised it.
int verbatim_null_raise(ibv_context* context, const ibv_async_event* event);

/// Puts a completion of any kind into a queue; only the thread that polls it may call this. It is
/// polled after the completions of sends.
int verbatim_null_complete(ibv_cq* queue, const ibv_wc* completion);

/// The next send of this queue pair completes with `status`, and breaks the queue pair.
int verbatim_null_fail_send(ibv_qp* queue_pair, ibv_wc_status status);
}
