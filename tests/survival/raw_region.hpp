// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Memory of the software device, registered by the verb itself, so that taking it back has a
/// result.
#include <span>
#include <utility>

#include "support/require.hpp"
#include "verbatim/provider/soft.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {

class RawRegion {
 public:
  RawRegion(const ProtectionDomain& domain, std::size_t bytes)
      : domain_(domain),
        bytes_(bytes),
        memory_(soft_provider().alloc_memory(raw_context(), bytes, HugePages::off)) {
    if (memory_ != nullptr)
      raw_ = soft_provider().reg_mr(
          unsafe::native(domain_), memory_, bytes,
          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (raw_ == nullptr) give_up("no memory", std::source_location::current());
  }
  RawRegion(const RawRegion&) = delete;
  RawRegion& operator=(const RawRegion&) = delete;
  /// Memory that cannot be taken back stays, because a peer may still write to it.
  ~RawRegion() {
    if (raw_ == nullptr || deregister() == 0)
      soft_provider().free_memory(raw_context(), memory_, bytes_);
  }

  /// The result of the verb. After a 0, the region is gone.
  int deregister() {
    if (raw_ == nullptr) return 0;
    const int failed = soft_provider().dereg_mr(raw_);
    if (failed == 0) raw_ = nullptr;
    return failed;
  }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(memory_), bytes_};
  }
  [[nodiscard]] RemoteMemoryRegion remote() const noexcept {
    return {reinterpret_cast<std::uintptr_t>(memory_), bytes_, RemoteKey{raw_->rkey}};
  }
  [[nodiscard]] std::uint32_t key() const noexcept { return raw_->lkey; }
  /// Posts all of it as a receive, to a queue pair or to a shared queue.
  [[nodiscard]] int post_receive(ibv_qp* queue_pair, ibv_srq* shared, std::uint64_t id) {
    ibv_sge element{.addr = reinterpret_cast<std::uintptr_t>(memory_),
                    .length = static_cast<std::uint32_t>(bytes_),
                    .lkey = raw_->lkey};
    ibv_recv_wr request{.wr_id = id, .next = nullptr, .sg_list = &element, .num_sge = 1};
    ibv_recv_wr* rejected = nullptr;
    return shared != nullptr ? shared->context->ops.post_srq_recv(shared, &request, &rejected)
                             : queue_pair->context->ops.post_recv(queue_pair, &request, &rejected);
  }

 private:
  [[nodiscard]] ibv_context* raw_context() const { return unsafe::native(domain_)->context; }

  ProtectionDomain domain_;
  std::size_t bytes_;
  void* memory_;
  ibv_mr* raw_ = nullptr;
};

}  // namespace verbatim::test
