// SPDX-License-Identifier: MIT OR Apache-2.0
// The list of devices, with ours after the real ones; opening, closing and importing devices.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <shared_mutex>

#include "preload/dispatch.hpp"
#include "preload/system_files.hpp"
#include "soft/abi/context_operations.hpp"
#include "soft/abi/inherited.hpp"
#include "soft/abi/scripted_verbs.hpp"
#include "soft/control/device.hpp"
#include "soft/control/domain.hpp"
#include "soft/control/queue_pair.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::preload {
namespace {

constinit Original<ibv_device**(int*)> original_list{"ibv_get_device_list", "IBVERBS_1.1"};
constinit Original<void(ibv_device**)> original_free{"ibv_free_device_list", "IBVERBS_1.1"};
constinit Original<ibv_context*(int)> original_import{"ibv_import_device", "IBVERBS_1.10"};

/// Hides our devices, because the real library walks through the class directories.
ibv_device** list_real(int* count) {
  const DevicesHidden hidden;
  return original_list(count);
}

ibv_device** end_of(ibv_device** list) noexcept {
  while (*list != nullptr) ++list;
  return list;
}

/// Its address says that a list ends here that merge() made and nobody has shortened.
constexpr char kEndOfMerged{};

ibv_device* end_mark() noexcept {
  return reinterpret_cast<ibv_device*>(const_cast<char*>(&kEndOfMerged));
}

/// A list with ours behind the real ones. Behind its end and a mark it keeps the list that it was
/// made from. It is one block, because real lists are: qperf gives them to free(). Returns nullptr
/// if there is no memory.
ibv_device** merge(ibv_device** real, int real_count) noexcept {
  int soft_count = 0;
  ibv_device** const soft = engine::get_device_list(&soft_count);
  const std::size_t places = std::size_t{3} + static_cast<unsigned>(real_count + soft_count);
  auto** const merged = static_cast<ibv_device**>(std::calloc(places, sizeof(ibv_device*)));
  if (soft == nullptr || merged == nullptr) {
    std::free(static_cast<void*>(merged));
    if (soft != nullptr) engine::free_device_list(soft);
    return nullptr;
  }
  ibv_device** const end = std::copy_n(soft, soft_count, std::copy_n(real, real_count, merged));
  end[1] = end_mark();
  end[2] = reinterpret_cast<ibv_device*>(real);
  engine::free_device_list(soft);
  return merged;
}

/// The context's first queue pair from this index on, which then is its index. nullptr: it has no
/// more.
ibv_qp* next_left(engine::Engine& engine, const ibv_context* context,
                  std::uint32_t& index) noexcept {
  // Another thread may destroy a queue pair of another context.
  const std::shared_lock alive{engine.lifetime};
  for (; index < engine.receive_sides.end(); ++index) {
    const engine::ReceiveSide* const side = engine.receive_sides.at(index);
    if (side == nullptr) continue;
    ibv_qp& queue_pair = engine::QueuePair::of(*side).raw;
    if (queue_pair.context == context) return &queue_pair;
  }
  return nullptr;
}

/// The kernel frees what a program leaves behind when it closes its device. We do not know who
/// still holds a pointer, so we keep the objects. But no peer can reach them any more.
void abandon(ibv_context* context) noexcept {
  engine::Engine& engine = *engine::Context::of(context).engine;
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  for (std::uint32_t index = 0; ibv_qp* const left = next_left(engine, context, index); ++index)
    engine::modify_queue_pair(left, &reset, IBV_QP_STATE);
}

constexpr char kCommandFile[] = "verbatim-commands";

/// Gives the context a descriptor that programs can duplicate or pass on. Nothing answers on it.
ibv_context* open_soft(ibv_device* device) noexcept {
  ibv_context* const context = engine::kScripted<engine::open_filled>(device);
  if (context != nullptr) context->cmd_fd = memfd_create(kCommandFile, MFD_CLOEXEC);
  return context;
}

bool is_command_file(int fd) noexcept {
  char path[64];
  char target[64] = {};
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return readlink(path, target, sizeof target - 1) > 0 &&
         std::strstr(target, kCommandFile) != nullptr;
}

int close_soft(ibv_context* context) noexcept {
  const int commands = context->cmd_fd;
  if (engine::close_device(context) != 0) abandon(context);
  if (commands >= 0) close(commands);
  return 0;
}

const char* name_of(ibv_device* device) noexcept { return device->name; }

}  // namespace
}  // namespace verbatim::preload

using namespace verbatim::preload;
namespace engine = verbatim::engine;

VERBATIM_EXPORT ibv_device** ibv_get_device_list(int* count) {
  if (DevicesHidden::now()) return original_list(count);  // The real library itself asks.
  const int errno_before = errno;
  int real_count = 0;
  ibv_device** const real = list_real(&real_count);
  const bool ours = engine::find_device(0) != nullptr;
  if (count != nullptr) *count = ours ? 0 : real_count;
  if (!ours) return real;  // With the real library's errno.
  ibv_device** const merged = merge(real, real != nullptr ? real_count : 0);
  if (merged == nullptr) {
    if (real != nullptr) original_free(real);
    errno = ENOMEM;
    return nullptr;
  }
  errno = errno_before;
  if (count != nullptr) *count = static_cast<int>(end_of(merged) - merged);
  return merged;
}

VERBATIM_EXPORT void ibv_free_device_list(ibv_device** list) {
  ibv_device** const end = list != nullptr ? end_of(list) : list;
  // Others come from the real library itself.
  if (std::none_of(list, end, [](const ibv_device* each) { return is_soft(each); }))
    return original_free(list);
  // If the program has shortened the list, devices are behind its end.
  if (end[1] == end_mark() && end[2] != nullptr)
    original_free(reinterpret_cast<ibv_device**>(end[2]));
  std::free(static_cast<void*>(list));
}

VERBATIM_EXPORT const char* ibv_get_device_name(ibv_device* device) {
  return dispatch<"ibv_get_device_name", "IBVERBS_1.1", &name_of>(device);
}

VERBATIM_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  constexpr auto kGuid = [](ibv_device* soft) noexcept -> __be64 {
    return engine::get_device_guid(soft);
  };
  return dispatch<"ibv_get_device_guid", "IBVERBS_1.1", kGuid>(device);
}

VERBATIM_EXPORT int ibv_get_device_index(ibv_device* device) {
  // Only the kernel numbers devices, so ours has no number.
  constexpr auto kNone = [](ibv_device*) noexcept { return -1; };
  return dispatch<"ibv_get_device_index", "IBVERBS_1.9", kNone>(device);
}

VERBATIM_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  return dispatch<"ibv_open_device", "IBVERBS_1.1", &open_soft>(device);
}

VERBATIM_EXPORT int ibv_close_device(ibv_context* context) {
  return dispatch<"ibv_close_device", "IBVERBS_1.1", engine::kDestroying<&close_soft>>(context);
}

VERBATIM_EXPORT ibv_context* ibv_import_device(int command_fd) {
  if (is_command_file(command_fd)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  const DevicesHidden hidden;
  return original_import(command_fd);
}
