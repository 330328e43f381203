// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/protection_domain.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <charconv>
#include <fstream>

#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/verbs/address_handle.hpp"
#include "verbs/domain_state.hpp"

namespace verbatim {
namespace {

Error length_error(Errc code, const char* operation, std::uint64_t bytes, std::uint64_t limit) {
  return {.code = code, .operation = operation, .field = "length", .value = bytes, .limit = limit};
}

/// The kernel returns ENOMEM if the memlock limit is too small. It returns EFAULT if the memory is
/// not mapped, or is read-only and the region wants to write. The error says which, with the
/// numbers.
Error registration_failure(int os_error, std::span<std::byte> bytes) {
  Error error = os_failure("ibv_reg_mr", os_error);
  error.field = "length";
  error.value = bytes.size();
  if (os_error == EFAULT) {
    error.code = Errc::invalid_argument;
    std::array<char, 24> text{'0', 'x'};
    std::to_chars(text.data() + 2, text.data() + text.size() - 1,
                  reinterpret_cast<std::uintptr_t>(bytes.data()), 16);
    return error.with_text(text.data());
  }
  rlimit memlock{};
  if (os_error == ENOMEM && getrlimit(RLIMIT_MEMLOCK, &memlock) == 0 &&
      memlock.rlim_cur != RLIM_INFINITY)
    error.limit = memlock.rlim_cur;
  return error;
}

/// Pages from the reserved pool have their own size.
std::size_t reserved_page_bytes() {
  std::ifstream info{"/proc/meminfo"};
  std::string word;
  std::size_t kibibytes = 0;
  while (info >> word)
    if (word == "Hugepagesize:" && info >> kibibytes) return kibibytes * 1024;
  return std::size_t{2} << 20;
}

Result<std::unique_ptr<detail::Allocation>> allocate_memory(const detail::DomainPtr& domain,
                                                            std::size_t bytes,
                                                            HugePages huge_pages) {
  detail::ContextState& context = domain->raw.context();
  VERBATIM_TRY(context.usable("alloc_memory"));
  const std::uint64_t limit = context.capabilities.max_region_bytes;
  if (bytes == 0) return std::unexpected(length_error(Errc::invalid_argument, "allocate", 0, 0));
  if (bytes > limit)
    return std::unexpected(length_error(Errc::limit_exceeded, "allocate", bytes, limit));
  if (huge_pages == HugePages::reserved) {
    const std::size_t page = reserved_page_bytes();
    bytes = (bytes + page - 1) / page * page;
  }
  void* const address = context.provider.alloc_memory(context.raw, bytes, huge_pages);
  if (address == nullptr) {
    Error error = os_failure("mmap", errno);
    error.field = huge_pages == HugePages::reserved ? "huge pages" : "length";
    error.value = bytes;
    return std::unexpected(error);
  }
  return std::make_unique<detail::Allocation>(domain, address, bytes);
}

}  // namespace

detail::Allocation::~Allocation() {
  ContextState& context = domain->raw.context();
  // A child does not inherit owned memory, so nothing is mapped at this address there.
  if (context.fork.in_child()) return;
  if (const int failed = context.provider.free_memory(context.raw, address, bytes))
    log_teardown("free_memory", os_error_of(failed));
}

ProtectionDomain::ProtectionDomain(std::shared_ptr<detail::DomainState> state) noexcept
    : state_(std::move(state)) {}

Context ProtectionDomain::context() const noexcept { return Context{state_->raw.context_ptr()}; }

Result<ProtectionDomain> Context::allocate_domain() const {
  VERBATIM_TRY(state_->usable("ibv_alloc_pd"));
  ibv_pd* const raw = state_->provider.alloc_pd(state_->raw);
  if (raw == nullptr) return std::unexpected(os_failure("ibv_alloc_pd", errno));
  return ProtectionDomain{std::make_shared<detail::DomainState>(
      detail::Handle<ibv_pd>{state_, raw, state_->provider.dealloc_pd, "ibv_dealloc_pd"})};
}

Result<Buffer> ProtectionDomain::allocate(std::size_t bytes, BufferOptions options) const {
  auto memory = VERBATIM_TRY(allocate_memory(state_, bytes, options.huge_pages));
  const std::span all{static_cast<std::byte*>(memory->address), bytes};
  auto region = VERBATIM_TRY(register_bytes(all, Access::local_write));
  return Buffer{new detail::BufferBlock{std::move(memory), std::move(region)}};
}

Result<SharedRegion> ProtectionDomain::allocate_shared(std::size_t bytes, AccessFlags remote,
                                                       BufferOptions options) const {
  auto memory = VERBATIM_TRY(allocate_memory(state_, bytes, options.huge_pages));
  const std::span all{static_cast<std::byte*>(memory->address), bytes};
  return share(std::move(memory), all, remote);
}

Result<SharedRegion> ProtectionDomain::share_borrowed(std::span<std::byte> bytes,
                                                      AccessFlags remote) const {
  return share(nullptr, bytes, remote);
}

Result<SharedRegion> ProtectionDomain::share(std::unique_ptr<detail::Allocation> memory,
                                             std::span<std::byte> bytes, AccessFlags remote) const {
  if (remote.empty() || !kRemoteAccess.has(remote))
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "register_shared",
                                 .field = "remote access",
                                 .value = remote.bits,
                                 .limit = kRemoteAccess.bits});
  if (remote.has(Access::remote_atomic) && !state_->raw.context().capabilities.atomics)
    return std::unexpected(
        Error{.code = Errc::unsupported, .operation = "register_shared", .field = "atomics"});
  auto region = VERBATIM_TRY(register_bytes(bytes, remote | Access::local_write));
  const RemoteMemoryRegion exposed = VERBATIM_TRY(region.remote());
  return SharedRegion{std::move(memory), bytes, std::move(region), exposed};
}

Result<MemoryRegion> ProtectionDomain::register_bytes(std::span<std::byte> bytes,
                                                      AccessFlags access) const {
  detail::ContextState& context = state_->raw.context();
  VERBATIM_TRY(context.usable("ibv_reg_mr"));
  const std::uint64_t limit = context.capabilities.max_region_bytes;
  if (bytes.empty())
    return std::unexpected(length_error(Errc::invalid_argument, "ibv_reg_mr", 0, 0));
  if (bytes.size() > limit)
    return std::unexpected(length_error(Errc::limit_exceeded, "ibv_reg_mr", bytes.size(), limit));
  // The specification requires local write for memory that may be written remotely.
  if (access.has_any(Access::remote_write | Access::remote_atomic) &&
      !access.has(Access::local_write))
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "ibv_reg_mr",
                                 .field = "access: remote write needs local_write",
                                 .value = access.bits});
  if (access.has(Access::on_demand) && !context.capabilities.on_demand_paging)
    return std::unexpected(
        Error{.code = Errc::unsupported, .operation = "ibv_reg_mr", .field = "on-demand paging"});
  ibv_mr* const raw =
      context.provider.reg_mr(state_->raw.get(), bytes.data(), bytes.size(), access.bits);
  if (raw == nullptr) return std::unexpected(registration_failure(errno, bytes));
  auto state = std::make_unique<detail::RegionState>(
      state_, detail::Handle<ibv_mr>{state_->raw.context_ptr(), raw, context.provider.dereg_mr,
                                     "ibv_dereg_mr"});
  if (access.has(Access::zero_based)) state->unaddressable = detail::Unaddressable{raw};
  const auto base =
      access.has(Access::zero_based) ? 0 : reinterpret_cast<std::uintptr_t>(bytes.data());
  return MemoryRegion{std::move(state), base, bytes.size(), access};
}

Result<MemoryRegion> ProtectionDomain::register_dmabuf(const DmabufOptions& options) const {
  detail::ContextState& context = state_->raw.context();
  VERBATIM_TRY(context.usable("ibv_reg_dmabuf_mr"));
  if (options.length == 0)
    return std::unexpected(length_error(Errc::invalid_argument, "ibv_reg_dmabuf_mr", 0, 0));
  ibv_mr* const raw = context.provider.reg_dmabuf_mr(state_->raw.get(), options.offset,
                                                     options.length, options.iova, options.fd,
                                                     static_cast<int>(options.access.bits));
  if (raw == nullptr) {
    Error error = os_failure("ibv_reg_dmabuf_mr", errno);
    error.field = errno == EBADF ? "fd" : "length";
    error.value =
        errno == EBADF ? static_cast<std::uint64_t>(options.fd.get()) : options.length.get();
    return std::unexpected(error);
  }
  auto state = std::make_unique<detail::RegionState>(
      state_, detail::Handle<ibv_mr>{state_->raw.context_ptr(), raw, context.provider.dereg_mr,
                                     "ibv_dereg_mr"});
  state->unaddressable = detail::Unaddressable{raw};
  // The address in the raw object is the offset into the dmabuf. Requests and peers use the iova.
  return MemoryRegion{std::move(state), options.iova, options.length, options.access};
}

}  // namespace verbatim
