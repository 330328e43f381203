// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/provider/soft.hpp"

#include <cerrno>

#include "soft/abi/context_operations.hpp"
#include "soft/abi/inherited.hpp"
#include "soft/abi/scripted_verbs.hpp"
#include "soft/control/address_handle.hpp"
#include "soft/control/completion_channel.hpp"
#include "soft/control/completion_queue.hpp"
#include "soft/control/device.hpp"
#include "soft/control/domain.hpp"
#include "soft/control/events.hpp"
#include "soft/control/queue_pair.hpp"
#include "soft/control/shared_receive_queue.hpp"
#include "soft/memory/memory_object.hpp"
#include "soft/memory/registration.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim {
namespace {

void* allocate(ibv_context* context, std::size_t bytes, HugePages huge_pages) {
  if (engine::is_inherited(context)) {
    errno = EOWNERDEAD;
    return nullptr;
  }
  engine::Engine& engine = *engine::Context::of(context).engine;
  engine.reclaim();
  using engine::ObjectPages;
  return engine.objects().allocate(
      bytes, huge_pages == HugePages::reserved      ? ObjectPages::reserved_huge
             : huge_pages == HugePages::transparent ? ObjectPages::transparent_huge
                                                    : ObjectPages::ordinary);
}

int release(ibv_context* context, void* address, std::size_t bytes) {
  if (engine::is_inherited(context)) return 0;  // The memory stayed with the parent.
  engine::Engine& engine = *engine::Context::of(context).engine;
  const int failed = engine.objects().free(address, bytes);
  engine.reclaim();
  return failed;
}

ibv_mr* register_region(ibv_pd* domain, void* address, std::size_t length,
                        unsigned access) noexcept {
  const auto base =
      (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : reinterpret_cast<std::uintptr_t>(address);
  return engine::register_memory(domain, address, length, base, access);
}

using engine::kDestroying;
using engine::kEventful;
using engine::kGuarded;
using engine::kScripted;

}  // namespace

const Provider& soft_provider() {
  static const Provider table{
      .name = "soft",
      .get_device_list = kGuarded<engine::get_device_list>,
      .free_device_list = engine::free_device_list,
      .get_device_guid = engine::get_device_guid,
      .open_device = kScripted<engine::open_filled>,
      .open_failure = engine::open_failure,
      .close_device = kDestroying<engine::close_device>,
      .query_device = kScripted<engine::query_device>,
      .query_port = kScripted<engine::query_port>,
      .query_gid_table = kGuarded<engine::query_gid_table>,
      .query_pkey = kGuarded<engine::query_partition_key>,
      .transport = [](ibv_device*) { return Transport::soft; },
      .fabric_id = engine::fabric_id,
      .get_async_event = kEventful<engine::get_event>,
      .ack_async_event = engine::acknowledge_event,
      .alloc_memory = kGuarded<allocate>,
      .free_memory = kGuarded<release>,
      .alloc_pd = kScripted<engine::allocate_domain>,
      .dealloc_pd = kDestroying<engine::free_domain>,
      .reg_mr = kScripted<register_region>,
      .rereg_mr = engine::scripted_reregister,
      .dereg_mr = kDestroying<engine::deregister_memory>,
      .create_comp_channel = kScripted<engine::create_channel>,
      .destroy_comp_channel = kDestroying<engine::destroy_channel>,
      .get_cq_event = kEventful<engine::get_completion_event>,
      .ack_cq_events = engine::acknowledge_completion_events,
      .create_cq = kScripted<engine::create_completion_queue>,
      .resize_cq = kScripted<engine::resize_completion_queue>,
      .destroy_cq = kDestroying<engine::destroy_completion_queue>,
      .create_qp = kScripted<engine::create_queue_pair>,
      .modify_qp = kScripted<engine::modify_queue_pair>,
      .query_qp = kScripted<engine::query_queue_pair>,
      .destroy_qp = kDestroying<engine::destroy_queue_pair>,
      .create_srq = kScripted<engine::create_shared_queue>,
      .modify_srq = kScripted<engine::modify_shared_queue>,
      .query_srq = kScripted<engine::query_shared_queue>,
      .destroy_srq = kDestroying<engine::destroy_shared_queue>,
      .create_ah = kScripted<engine::create_address_handle>,
      .destroy_ah = kGuarded<engine::destroy_address_handle>,
  };
  return table;
}

}  // namespace verbatim
