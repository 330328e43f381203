// SPDX-License-Identifier: MIT OR Apache-2.0
// Protection domains, memory regions and address handles.
#include <cstdint>

#include "preload/dispatch.hpp"
#include "soft/abi/inherited.hpp"
#include "soft/abi/scripted_verbs.hpp"
#include "soft/control/address_handle.hpp"
#include "soft/control/device.hpp"
#include "soft/control/domain.hpp"
#include "soft/memory/registration.hpp"

namespace verbatim::preload {
namespace {

/// The access flags that a program may ask for, and those that have no effect here.
constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                             IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;
constexpr unsigned kOptional = IBV_ACCESS_OPTIONAL_RANGE;
constexpr unsigned kIgnored = kOptional | IBV_ACCESS_HUGETLB | IBV_ACCESS_MW_BIND;
constexpr std::uint64_t kPageOffset = 4095;

ibv_mr* refuse_region(int why) noexcept {
  errno = why;
  return nullptr;
}

ibv_mr* register_at(ibv_pd* domain, void* address, std::size_t length, std::uint64_t base,
                    unsigned access) noexcept {
  if ((access & ~(kAccess | kOptional)) != 0) return refuse_region(EOPNOTSUPP);
  // The kernel's rule, because translations are by page.
  if (((base ^ reinterpret_cast<std::uintptr_t>(address)) & kPageOffset) != 0)
    return refuse_region(EINVAL);
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) base = 0;
  return engine::kScripted<engine::register_memory>(domain, address, length, base,
                                                    access & ~kIgnored);
}

ibv_mr* register_region(ibv_pd* domain, void* address, std::size_t length, int access) noexcept {
  return register_at(domain, address, length, reinterpret_cast<std::uintptr_t>(address),
                     static_cast<unsigned>(access));
}

ibv_mr* register_iova(ibv_pd* domain, void* address, std::size_t length, std::uint64_t base,
                      int access) noexcept {
  return register_at(domain, address, length, base, static_cast<unsigned>(access));
}

/// Finds the path back to the sender of a datagram. Returns an errno, or 0.
int reverse_path(ibv_context* context, std::uint8_t port, const ibv_wc& completion,
                 const ibv_grh* header, ibv_ah_attr& path) noexcept {
  path = {};
  path.dlid = completion.slid;
  path.sl = completion.sl;
  path.src_path_bits = completion.dlid_path_bits;
  path.port_num = port;
  if ((completion.wc_flags & IBV_WC_GRH) == 0) return 0;
  path.is_global = 1;
  path.grh.dgid = header->sgid;
  const std::uint32_t flow = be32toh(header->version_tclass_flow);
  path.grh.flow_label = flow & 0xfffff;
  path.grh.traffic_class = static_cast<std::uint8_t>(flow >> 20);
  path.grh.hop_limit = 0xff;
  ibv_gid_entry table[engine::kGidTable];
  const ssize_t count = engine::query_gid_table(context, table, engine::kGidTable);
  for (ssize_t i = 0; i < count; ++i) {
    if (!std::equal(std::begin(table[i].gid.raw), std::end(table[i].gid.raw), header->dgid.raw))
      continue;
    path.grh.sgid_index = static_cast<std::uint8_t>(table[i].gid_index);
    return 0;
  }
  return EINVAL;
}

int init_handle(ibv_context* context, std::uint8_t port, ibv_wc* completion, ibv_grh* header,
                ibv_ah_attr* path) noexcept {
  return minus_one(reverse_path(context, port, *completion, header, *path));
}

ibv_ah* create_handle(ibv_pd* domain, ibv_wc* completion, ibv_grh* header,
                      std::uint8_t port) noexcept {
  ibv_ah_attr path;
  if (init_handle(domain->context, port, completion, header, &path) != 0) return nullptr;
  return engine::kScripted<engine::create_address_handle>(domain, &path);
}

}  // namespace
}  // namespace verbatim::preload

using namespace verbatim::preload;
namespace engine = verbatim::engine;

VERBATIM_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return dispatch<"ibv_alloc_pd", "IBVERBS_1.1", engine::kScripted<engine::allocate_domain>>(
      context);
}

VERBATIM_EXPORT int ibv_dealloc_pd(ibv_pd* domain) {
  return dispatch<"ibv_dealloc_pd", "IBVERBS_1.1", engine::kDestroying<engine::free_domain>>(
      domain);
}

VERBATIM_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t length, int access) {
  return dispatch<"ibv_reg_mr", "IBVERBS_1.1", &register_region>(domain, address, length, access);
}

VERBATIM_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* domain, void* address, std::size_t length,
                                        std::uint64_t base, int access) {
  return dispatch<"ibv_reg_mr_iova", "IBVERBS_1.7", &register_iova>(domain, address, length, base,
                                                                    access);
}

VERBATIM_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, std::size_t length,
                                         std::uint64_t base, unsigned access) {
  return dispatch<"ibv_reg_mr_iova2", "IBVERBS_1.8", &register_at>(domain, address, length, base,
                                                                   access);
}

VERBATIM_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t length,
                                          std::uint64_t base, int fd, int access) {
  return dispatch<"ibv_reg_dmabuf_mr", "IBVERBS_1.12", kUnsupported<ibv_mr*>>(
      domain, offset, length, base, fd, access);
}

VERBATIM_EXPORT int ibv_rereg_mr(ibv_mr* region, int flags, ibv_pd* domain, void* address,
                                 std::size_t length, int access) {
  return dispatch<"ibv_rereg_mr", "IBVERBS_1.1", &engine::scripted_reregister>(
      region, flags, domain, address, length, access);
}

VERBATIM_EXPORT int ibv_dereg_mr(ibv_mr* region) {
  return dispatch<"ibv_dereg_mr", "IBVERBS_1.1", engine::kDestroying<engine::deregister_memory>>(
      region);
}

VERBATIM_EXPORT ibv_ah* ibv_create_ah(ibv_pd* domain, ibv_ah_attr* path) {
  return dispatch<"ibv_create_ah", "IBVERBS_1.1", engine::kScripted<engine::create_address_handle>>(
      domain, path);
}

VERBATIM_EXPORT int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* completion,
                                        ibv_grh* header, ibv_ah_attr* path) {
  return dispatch<"ibv_init_ah_from_wc", "IBVERBS_1.1", &init_handle>(context, port, completion,
                                                                      header, path);
}

VERBATIM_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* domain, ibv_wc* completion, ibv_grh* header,
                                              std::uint8_t port) {
  return dispatch<"ibv_create_ah_from_wc", "IBVERBS_1.1", &create_handle>(domain, completion,
                                                                          header, port);
}

VERBATIM_EXPORT int ibv_destroy_ah(ibv_ah* handle) {
  return dispatch<"ibv_destroy_ah", "IBVERBS_1.1", &engine::destroy_address_handle>(handle);
}
