// SPDX-License-Identifier: MIT OR Apache-2.0
// The list of devices, with ours after the real ones; opening, closing and importing devices.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "preload/dispatch.hpp"
#include "preload/system_files.hpp"
#include "soft/abi/context_operations.hpp"
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

/// The lists that we returned, each with the real list that it was made from. Never destroyed,
/// because programs free lists while they exit.
struct Lists {
  std::mutex mutex;
  std::map<ibv_device**, ibv_device**> real_by_merged;
};
Lists& lists() {
  static auto* const all = new Lists;
  return *all;
}

/// Hides our devices, because the real library walks through the class directories.
ibv_device** list_real(int* count) {
  const DevicesHidden hidden;
  return original_list(count);
}

/// Returns nullptr with errno if there is no memory.
ibv_device** merge(ibv_device** real, int real_count) noexcept {
  int soft_count = 0;
  ibv_device** const soft = engine::get_device_list(&soft_count);
  auto** const merged =
      new (std::nothrow) ibv_device*[static_cast<std::size_t>(real_count + soft_count + 1)]();
  if (soft == nullptr || merged == nullptr) {
    delete[] merged;
    if (soft != nullptr) engine::free_device_list(soft);
    errno = ENOMEM;
    return nullptr;
  }
  ibv_device** end = std::copy_n(real, real_count, merged);
  std::copy_n(soft, soft_count, end);
  engine::free_device_list(soft);
  const std::lock_guard lock{lists().mutex};
  lists().real_by_merged.emplace(merged, real);
  return merged;
}

/// The kernel frees what a program leaves behind when it closes its device. We do not know who
/// still holds a pointer, so we keep the objects. But no peer can reach them any more.
void abandon(ibv_context* context) noexcept {
  engine::Engine& engine = *engine::Context::of(context).engine;
  engine.receive_sides.for_each([context](const engine::ReceiveSide& side) {
    ibv_qp& left = engine::QueuePair::of(side).raw;
    if (left.context != context) return;
    ibv_qp_attr reset{};
    reset.qp_state = IBV_QPS_RESET;
    engine::modify_queue_pair(&left, &reset, IBV_QP_STATE);
  });
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
  if (count != nullptr) *count = 0;
  if (!ours && real == nullptr) return nullptr;  // Keeps the real library's errno.
  ibv_device** const merged = merge(real, real != nullptr ? real_count : 0);
  if (merged == nullptr) {
    if (real != nullptr) original_free(real);
    return nullptr;
  }
  errno = errno_before;
  if (count != nullptr)
    while (merged[*count] != nullptr) ++*count;
  return merged;
}

VERBATIM_EXPORT void ibv_free_device_list(ibv_device** list) {
  ibv_device** real = nullptr;
  {
    const std::lock_guard lock{lists().mutex};
    const auto found = lists().real_by_merged.extract(list);
    if (!found) return original_free(list);  // From the real library itself.
    real = found.mapped();
  }
  if (real != nullptr) original_free(real);
  delete[] list;
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
  return dispatch<"ibv_close_device", "IBVERBS_1.1", &close_soft>(context);
}

VERBATIM_EXPORT ibv_context* ibv_import_device(int command_fd) {
  if (is_command_file(command_fd)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  const DevicesHidden hidden;
  return original_import(command_fd);
}
