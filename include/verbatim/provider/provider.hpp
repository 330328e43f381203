// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The seam: the table of control verbs through which a Context was opened.
///
/// Everything above this file works with any table, and nothing above it asks which one it has. The
/// *data* verbs (post, poll, arm) are not here: they go through the function pointers that each
/// provider keeps inside `ibv_context`, like the inline functions of verbs.h.
///
/// Conventions: each entry keeps the return convention of the verb it is named after (a null
/// pointer with errno, a positive errno, or -1 with errno). A verb that a provider lacks fails with
/// EOPNOTSUPP when it is called, so a table never holds a null pointer. An object is destroyed
/// through the table that created it.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "verbatim/base/error.hpp"

namespace verbatim {

/// What moves the bytes. Always visible (`Context::transport()`), never a silent fallback.
enum class Transport : std::uint8_t {
  hardware,         ///< An RDMA adapter.
  kernel_software,  ///< A kernel driver over an ordinary network interface: rxe, siw.
  soft,             ///< The software device built into this library.
};

namespace detail {

/// Converts to a pointer to any function type: a function that fails with EOPNOTSUPP.
struct MissingVerb {
  template <class R, class... Args>
  static R call(Args...) noexcept {
    errno = EOPNOTSUPP;
    if constexpr (std::is_pointer_v<R>) return nullptr;
    if constexpr (std::is_integral_v<R>) return static_cast<R>(EOPNOTSUPP);
  }
  template <class R, class... Args>
  using Function = R (*)(Args...);
  template <class R, class... Args>
  constexpr operator Function<R, Args...>() const noexcept {
    return &MissingVerb::call<R, Args...>;
  }
};
inline constexpr MissingVerb kMissing{};

}  // namespace detail

/// The kind of pages behind owned memory.
enum class HugePages : std::uint8_t {
  off,          ///< Ordinary pages.
  transparent,  ///< Ask the kernel for huge pages if possible; never fails for lack of them.
  reserved,     ///< Only pages from the reserved pool (vm.nr_hugepages); fails if there are none.
};

/// One table serves every device of its kind.
struct Provider {
  const char* name = "";

  /// nullptr if the provider works, else why it can list no device (static storage).
  const char* (*unavailable)() = []() -> const char* { return nullptr; };

  // Devices.
  ibv_device** (*get_device_list)(int* count) = detail::kMissing;
  void (*free_device_list)(ibv_device** list) = detail::kMissing;
  __be64 (*get_device_guid)(ibv_device*) = detail::kMissing;
  ibv_context* (*open_device)(ibv_device*) = detail::kMissing;
  /// Details about this thread's last open_device failure that errno cannot express, if any.
  std::optional<Error> (*open_failure)() = [] { return std::optional<Error>{}; };
  int (*close_device)(ibv_context*) = detail::kMissing;
  int (*query_device)(ibv_context*, ibv_device_attr_ex*) = detail::kMissing;
  int (*query_port)(ibv_context*, std::uint8_t port, ibv_port_attr*) = detail::kMissing;
  /// Fills at most `max` entries of all ports; returns how many, or -errno.
  ssize_t (*query_gid_table)(ibv_context*, ibv_gid_entry*, std::size_t max) = detail::kMissing;
  int (*query_pkey)(ibv_context*, std::uint8_t port, int index, __be16*) = detail::kMissing;
  Transport (*transport)(ibv_device*) = [](ibv_device*) { return Transport::hardware; };
  /// 0 on a real fabric; equal for two contexts that share a private one.
  std::uint64_t (*fabric_id)(ibv_context*) = [](ibv_context*) -> std::uint64_t { return 0; };

  // Async events.
  int (*get_async_event)(ibv_context*, ibv_async_event*) = detail::kMissing;
  void (*ack_async_event)(ibv_async_event*) = detail::kMissing;

  // Memory. alloc_memory returns page-aligned zeroed memory that a forked child does not inherit.
  void* (*alloc_memory)(ibv_context*, std::size_t bytes, HugePages) = detail::kMissing;
  int (*free_memory)(ibv_context*, void*, std::size_t bytes) = detail::kMissing;
  ibv_pd* (*alloc_pd)(ibv_context*) = detail::kMissing;
  int (*dealloc_pd)(ibv_pd*) = detail::kMissing;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, std::size_t, unsigned access) = detail::kMissing;
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd*, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                           int fd, int access) = detail::kMissing;
  /// Not 0 on failure: an ibv_rereg_mr_err_code with errno, or EOPNOTSUPP.
  int (*rereg_mr)(ibv_mr*, int flags, ibv_pd*, void*, std::size_t, int access) = detail::kMissing;
  int (*dereg_mr)(ibv_mr*) = detail::kMissing;

  // Completions.
  ibv_comp_channel* (*create_comp_channel)(ibv_context*) = detail::kMissing;
  int (*destroy_comp_channel)(ibv_comp_channel*) = detail::kMissing;
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void**) = detail::kMissing;
  void (*ack_cq_events)(ibv_cq*, unsigned) = detail::kMissing;
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int) = detail::kMissing;
  int (*resize_cq)(ibv_cq*, int) = detail::kMissing;
  int (*destroy_cq)(ibv_cq*) = detail::kMissing;

  // Queues.
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*) = detail::kMissing;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int mask) = detail::kMissing;
  int (*query_qp)(ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*) = detail::kMissing;
  int (*query_qp_data_in_order)(ibv_qp*, ibv_wr_opcode, std::uint32_t) =
      [](ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; };
  int (*destroy_qp)(ibv_qp*) = detail::kMissing;
  ibv_srq* (*create_srq)(ibv_pd*, ibv_srq_init_attr*) = detail::kMissing;
  int (*modify_srq)(ibv_srq*, ibv_srq_attr*, int mask) = detail::kMissing;
  int (*query_srq)(ibv_srq*, ibv_srq_attr*) = detail::kMissing;
  int (*destroy_srq)(ibv_srq*) = detail::kMissing;
  ibv_ah* (*create_ah)(ibv_pd*, ibv_ah_attr*) = detail::kMissing;
  int (*destroy_ah)(ibv_ah*) = detail::kMissing;
};

}  // namespace verbatim
