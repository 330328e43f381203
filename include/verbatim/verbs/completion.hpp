// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The result of one work request.
///
/// Laid out as `ibv_wc`, so that polling writes straight into the caller's array. For a failed
/// request only id, status, vendor code and queue pair number are meaningful; the rest is empty.
#include <infiniband/verbs.h>

#include <bit>
#include <cstdint>
#include <optional>

#include "verbatim/base/ids.hpp"
#include "verbatim/verbs/work_error.hpp"

namespace verbatim {

/// What a completed request was. Lists only requests that this library posts or receives.
enum class Opcode : std::uint8_t {
  send,
  write,
  read,
  compare_swap,
  fetch_add,
  receive,            ///< A receive that a send filled.
  receive_immediate,  ///< A receive that a write with immediate took: the data went elsewhere.
  other,
};

class Completion {
 public:
  [[nodiscard]] bool ok() const noexcept { return wc_.status == IBV_WC_SUCCESS; }
  [[nodiscard]] WrId id() const noexcept { return WrId{wc_.wr_id}; }
  [[nodiscard]] WorkStatus status() const noexcept { return static_cast<WorkStatus>(wc_.status); }
  [[nodiscard]] std::uint32_t vendor_code() const noexcept { return wc_.vendor_err; }
  [[nodiscard]] QpNumber queue_pair() const noexcept { return QpNumber{wc_.qp_num}; }
  /// The failure; call it when `!ok()`.
  [[nodiscard]] WorkError error() const noexcept {
    return {status(), vendor_code(), id(), queue_pair()};
  }

  /// Empty for a failed request.
  [[nodiscard]] std::optional<Opcode> opcode() const noexcept;

  /// Bytes received, read, or (receive_immediate) written by the peer into memory of its choice; 8
  /// for atomics. Empty for a failed request, and for sends and writes, where it is unspecified.
  [[nodiscard]] std::optional<std::uint32_t> byte_count() const noexcept;

  /// In host order. Empty unless the peer sent one.
  [[nodiscard]] std::optional<std::uint32_t> immediate() const noexcept {
    if (!ok() || (wc_.wc_flags & IBV_WC_WITH_IMM) == 0) return std::nullopt;
    return std::endian::native == std::endian::little ? __builtin_bswap32(wc_.imm_data)
                                                      : wc_.imm_data;
  }

  /// The sender of a datagram; empty for a failed request. Meaningful only for UD: on a connected
  /// queue pair the value is unspecified.
  [[nodiscard]] std::optional<QpNumber> source() const noexcept {
    if (!ok() || (wc_.opcode & IBV_WC_RECV) == 0) return std::nullopt;
    return QpNumber{wc_.src_qp};
  }
  /// Whether the first 40 bytes of a received datagram's buffer hold a global route header. They
  /// are reserved either way.
  [[nodiscard]] bool has_grh() const noexcept { return ok() && (wc_.wc_flags & IBV_WC_GRH) != 0; }

 private:
  friend class CompletionQueue;
  ibv_wc wc_;
};
static_assert(sizeof(Completion) == sizeof(ibv_wc));

inline std::optional<Opcode> Completion::opcode() const noexcept {
  if (!ok()) return std::nullopt;
  switch (static_cast<int>(wc_.opcode)) {
    case IBV_WC_SEND: return Opcode::send;
    case IBV_WC_RDMA_WRITE: return Opcode::write;
    case IBV_WC_RDMA_READ: return Opcode::read;
    case IBV_WC_COMP_SWAP: return Opcode::compare_swap;
    case IBV_WC_FETCH_ADD: return Opcode::fetch_add;
    case IBV_WC_RECV: return Opcode::receive;
    case IBV_WC_RECV_RDMA_WITH_IMM: return Opcode::receive_immediate;
    default: return Opcode::other;  // A raw post by the caller.
  }
}

inline std::optional<std::uint32_t> Completion::byte_count() const noexcept {
  if (!ok()) return std::nullopt;
  switch (static_cast<int>(wc_.opcode)) {
    case IBV_WC_RECV:
    case IBV_WC_RECV_RDMA_WITH_IMM:
    case IBV_WC_RDMA_READ: return wc_.byte_len;
    case IBV_WC_COMP_SWAP:
    case IBV_WC_FETCH_ADD: return 8;
    default: return std::nullopt;
  }
}

}  // namespace verbatim
