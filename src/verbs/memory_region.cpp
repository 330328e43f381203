// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/memory_region.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "verbatim/base/try.hpp"
#include "verbs/domain_state.hpp"

namespace verbatim {

static_assert(std::to_underlying(Access::local_write) == IBV_ACCESS_LOCAL_WRITE &&
              std::to_underlying(Access::remote_write) == IBV_ACCESS_REMOTE_WRITE &&
              std::to_underlying(Access::remote_read) == IBV_ACCESS_REMOTE_READ &&
              std::to_underlying(Access::remote_atomic) == IBV_ACCESS_REMOTE_ATOMIC &&
              std::to_underlying(Access::memory_window_bind) == IBV_ACCESS_MW_BIND &&
              std::to_underlying(Access::zero_based) == IBV_ACCESS_ZERO_BASED &&
              std::to_underlying(Access::on_demand) == IBV_ACCESS_ON_DEMAND &&
              std::to_underlying(Access::huge_pages) == IBV_ACCESS_HUGETLB &&
              std::to_underlying(Access::relaxed_ordering) == IBV_ACCESS_RELAXED_ORDERING);

MemoryRegion::MemoryRegion(std::shared_ptr<detail::RegionState> state, std::uint64_t base,
                           std::uint64_t length, AccessFlags access) noexcept
    : base_(base),
      length_(length),
      max_gather_(std::min(length, kMaxElement)),
      max_scatter_(access.has(Access::local_write) ? max_gather_ : 0),
      key_(state->raw.get()->lkey),
      access_(access),
      state_(std::move(state)) {}

MemoryRegion::MemoryRegion(MemoryRegion&&) noexcept = default;
MemoryRegion& MemoryRegion::operator=(MemoryRegion&&) noexcept = default;
MemoryRegion::~MemoryRegion() = default;

Result<void> MemoryRegion::reregister(AccessFlags access) {
  constexpr const char* kOperation = "ibv_rereg_mr";
  constexpr AccessFlags kRights = kRemoteAccess | Access::local_write;
  VERBATIM_TRY(state_->raw.context().usable(kOperation));
  const auto refuse = [&](const char* why) {
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = kOperation,
                                 .field = why,
                                 .value = access.bits,
                                 .limit = access_.bits});
  };
  if (((access.bits ^ access_.bits) & ~kRights.bits) != 0)
    return refuse("access: more than rights would change");
  // The specification requires local write for memory that may be written remotely.
  if (access.has_any(Access::remote_write | Access::remote_atomic) &&
      !access.has(Access::local_write))
    return refuse("access: remote write needs local_write");
  ibv_mr* const raw = state_->raw.get();
  errno = 0;
  const int failed = state_->raw.provider().rereg_mr(raw, IBV_REREG_MR_CHANGE_ACCESS, nullptr,
                                                     nullptr, 0, static_cast<int>(access.bits));
  // With this one error the device did change the access. Only the fork protection of the former
  // pages was not undone.
  if (failed != 0 && failed != IBV_REREG_MR_ERR_DO_FORK_OLD) {
    Error error = os_failure(kOperation, errno != 0 ? errno : EIO);
    error.field = "access";
    error.value = access.bits;
    return std::unexpected(error);
  }
  if (state_->unaddressable) {
    state_->unaddressable = {};  // First, because the key may be the same.
    state_->unaddressable = detail::Unaddressable{raw};
  }
  key_ = raw->lkey;
  access_ = access;
  max_scatter_ = access.has(Access::local_write) ? max_gather_ : 0;
  return {};
}

Result<RemoteMemoryRegion> MemoryRegion::remote() const noexcept {
  if (!access_.has_any(kRemoteAccess))
    return std::unexpected(Error{.code = Errc::permission_denied,
                                 .operation = "remote",
                                 .field = "access",
                                 .value = access_.bits,
                                 .limit = kRemoteAccess.bits});
  return RemoteMemoryRegion{base_, length_, RemoteKey{state_->raw.get()->rkey}};
}

void MemoryRegion::violated(const char* what, std::uint64_t size, Where where) const {
  if (size > kMaxElement)
    contract_violated("element: 32 bits hold its length", size, kMaxElement, where);
  contract_violated(what, size, length_, where);
}

Error MemoryRegion::outside(const char* operation, Range range,
                            std::uint64_t length) const noexcept {
  std::array<char, 24> text{'0', 'x'};
  std::to_chars(text.data() + 2, text.data() + text.size() - 1, range.address, 16);
  if (length == 0 && length_ != 0)
    return Error{.code = Errc::permission_denied,
                 .operation = operation,
                 .field = "region without local_write",
                 .value = range.size}
        .with_text(text.data());
  return Error{.code = Errc::invalid_argument,
               .operation = operation,
               .field = "range outside the region: length",
               .value = range.size,
               .limit = length}
      .with_text(text.data());
}

}  // namespace verbatim
