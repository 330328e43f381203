// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Bare verbs on the device under test, for what the library prevents its users from doing.
///
/// Objects are created and destroyed through the provider's table, as in a program that uses
/// rdma-core; data verbs are the inline functions of verbs.h. A failed creation throws.
#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "verbatim/provider/provider.hpp"

namespace verbatim::test::raw {

/// The table of the device under test.
[[nodiscard]] const Provider& verbs();

struct Destroy {
  void operator()(ibv_context* object) const;
  void operator()(ibv_pd* object) const;
  void operator()(ibv_mr* object) const;
  void operator()(ibv_comp_channel* object) const;
  void operator()(ibv_cq* object) const;
  void operator()(ibv_srq* object) const;
  void operator()(ibv_qp* object) const;
  void operator()(ibv_ah* object) const;
};
template <class Object>
using Owned = std::unique_ptr<Object, Destroy>;

inline constexpr unsigned kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr std::uint32_t kQueueKey = 0x11111111;

[[nodiscard]] Owned<ibv_context> open(Where where = Where::current());
[[nodiscard]] Owned<ibv_pd> domain(ibv_context* context, Where where = Where::current());
[[nodiscard]] Owned<ibv_comp_channel> channel(ibv_context* context, Where where = Where::current());
[[nodiscard]] Owned<ibv_cq> completion_queue(ibv_context* context, int depth = 256,
                                             ibv_comp_channel* channel = nullptr,
                                             Where where = Where::current());
[[nodiscard]] Owned<ibv_mr> region(ibv_pd* domain, std::span<std::byte> bytes,
                                   unsigned access = kAllAccess, Where where = Where::current());
[[nodiscard]] Owned<ibv_srq> shared_receive_queue(ibv_pd* domain, std::uint32_t requests = 16,
                                                  Where where = Where::current());

struct QueuePairRecipe {
  ibv_pd* domain;
  ibv_cq* sends;
  ibv_cq* receives;
  ibv_srq* shared = nullptr;
  ibv_qp_type type = IBV_QPT_RC;
  std::uint32_t requests = 32;  ///< Of each queue.
};
/// Like the verb: returns nullptr with errno if it is refused.
[[nodiscard]] ibv_qp* try_queue_pair(const QueuePairRecipe& recipe);
[[nodiscard]] Owned<ibv_qp> queue_pair(const QueuePairRecipe& recipe,
                                       Where where = Where::current());

/// The address of a queue pair. A plain value, because it travels to another process as bytes.
struct Address {
  std::uint32_t number = 0;
  std::uint32_t psn = 0;
  std::uint16_t lid = 0;
  ibv_gid gid{};
};
[[nodiscard]] Address address_of(const ibv_qp* queue_pair);
[[nodiscard]] bool is_ethernet(ibv_context* context);
/// The path from `context` to the peer.
[[nodiscard]] ibv_ah_attr path_to(ibv_context* context, const Address& peer);
[[nodiscard]] Owned<ibv_ah> address_handle(ibv_pd* domain, const Address& peer,
                                           Where where = Where::current());

/// The settings of a side when it connects. A peer that lives has four seconds for its answer,
/// because it or its device may have to wait for a processor.
struct Settings {
  unsigned access = kAllAccess;
  std::uint8_t timeout = 18;  ///< 4.096 us * 2^18 = 1.07 s.
  std::uint8_t retries = 3;
  std::uint8_t max_reads_out = 1;  ///< max_rd_atomic
  std::uint8_t max_reads_in = 1;   ///< max_dest_rd_atomic
};
/// For requests that nobody answers: they fail after about a tenth of a second (4 * 17 ms).
inline constexpr Settings kSoonLost{.timeout = 12};
/// Returns 0, or the errno of the step that was refused.
[[nodiscard]] int to_init(ibv_qp* queue_pair, const Settings& settings = {});
[[nodiscard]] int to_ready_to_receive(ibv_qp* queue_pair, const Address& peer,
                                      const Settings& settings = {});
[[nodiscard]] int to_ready_to_send(ibv_qp* queue_pair, const Settings& settings = {},
                                   std::uint32_t psn = 0);
/// Makes all three transitions; throws if one is refused.
void connect(ibv_qp* queue_pair, const Address& peer, const Settings& settings = {},
             Where where = Where::current());
/// Connects two queue pairs of this process to each other.
void connect(ibv_qp* left, ibv_qp* right, const Settings& settings = {},
             Where where = Where::current());
[[nodiscard]] int change_state(ibv_qp* queue_pair, ibv_qp_state state);

/// A piece of registered memory, as requests name it.
struct Piece {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint32_t key = 0;
};
[[nodiscard]] Piece local(const ibv_mr* region, std::size_t offset, std::size_t bytes);
[[nodiscard]] Piece remote(const ibv_mr* region, std::size_t offset, std::size_t bytes);

/// The posts return the result of the verb: 0 or an errno.
int post_receive(ibv_qp* queue_pair, std::uint64_t id, const Piece& into);
int post_receive(ibv_srq* queue, std::uint64_t id, const Piece& into);
int post_send(ibv_qp* queue_pair, std::uint64_t id, const Piece& from);
int post_write(ibv_qp* queue_pair, std::uint64_t id, const Piece& from, const Piece& to);
int post_read(ibv_qp* queue_pair, std::uint64_t id, const Piece& into, const Piece& from);
int post_fetch_add(ibv_qp* queue_pair, std::uint64_t id, const Piece& into, const Piece& at,
                   std::uint64_t add);
/// Another opcode is a mistake: a datagram names its destination where others name memory.
int post_datagram(ibv_qp* queue_pair, std::uint64_t id, const Piece& from, ibv_ah* to,
                  std::uint32_t number, ibv_wr_opcode opcode = IBV_WR_SEND);

/// The next completion, or nothing if none comes in time.
[[nodiscard]] std::optional<ibv_wc> poll_within(ibv_cq* queue, std::chrono::nanoseconds patience);
/// The next completion. Throws if none comes.
[[nodiscard]] ibv_wc poll_one(ibv_cq* queue, Where where = Where::current());
/// The next completion. Throws unless it is a success.
ibv_wc poll_ok(ibv_cq* queue, Where where = Where::current());

/// Whether the descriptor is readable, now or in time.
[[nodiscard]] bool is_readable(int fd, std::chrono::milliseconds patience = {});

/// Memory that is mapped for this test only, so that it can be unmapped.
class Mapping {
 public:
  /// Private memory of this process. With a context: what the provider gives to a Buffer, which
  /// peers of the software device map. The context must outlive it.
  explicit Mapping(std::size_t bytes, ibv_context* allocator = nullptr);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { unmap(); }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  void fill(std::byte value) const;
  /// Any later access crashes, except in a provider's piece that is smaller than kOwnMappingBytes.
  void unmap();

 private:
  ibv_context* allocator_;
  std::span<std::byte> bytes_;
};
/// From this size on, an allocation of the software device has its own mapping. Smaller ones share
/// mappings, which stay.
inline constexpr std::size_t kOwnMappingBytes = 260 << 10;

}  // namespace verbatim::test::raw
