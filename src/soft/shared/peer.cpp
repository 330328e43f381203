// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/peer.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>

#include "base/environment.hpp"
#include "base/once.hpp"
#include "base/uncancelled.hpp"
#include "soft/shared/fault_guard.hpp"
#include "soft/shared/segment.hpp"

namespace verbatim::engine {
namespace {

constinit const Word kAllRegions{kRegions};

}  // namespace

MemoryPolicy memory_policy() noexcept {
  const std::string_view choice = environment("VERBATIM_SOFT_MEMORY", "mapped");
  return {.map_objects = choice != "process" && choice != "relay", .process_vm = choice != "relay"};
}

void unmap(Window* windows) noexcept {
  while (windows != nullptr) {
    const std::unique_ptr<Window> window{std::exchange(windows, windows->next)};
    munmap(window->address, window->bytes);
  }
}

Peer::Peer(Segment& own, const SharedRegion* regions) noexcept
    : all_(nullptr),
      segment_(&own),
      regions_(regions),
      region_count_(&kAllRegions),
      tag_(tag_of(own.slot, own.nonce)),
      pid_(own.pid),
      path_(MemoryPath::direct) {}

Peer::Peer(Peers& all, const Attached& attached) noexcept
    : all_(&all),
      segment_(&attached.segment),
      regions_(attached.segment.regions),
      region_count_(&attached.segment.regions_backed),
      tag_(tag_of(attached.segment.slot, attached.segment.nonce)),
      pid_(attached.pid),
      path_(attached.path),
      liveness_(attached.fd),
      windows_(static_cast<WindowSlot*>(attached.windows)) {}

Peer::~Peer() {
  const Uncancelled here;
  close_channels();
  if (is_self()) return;
  if (const int memory = memory_file_.load(); memory >= 0) close(memory);
  unmap(retire_windows(true));
  munmap(windows_, kWindowTableBytes);
  forget_segment(segment_);
  munmap(segment_, kSegmentBytes);
}

bool Peer::is_backed(const void* entry, std::size_t bytes) const noexcept {
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(entry) -
                                                 reinterpret_cast<const std::byte*>(segment_));
  if (offset >= kRingsOffset || bytes > kRingsOffset - offset) return false;
  for (std::uint64_t page = offset / kPage; page <= (offset + bytes - 1) / kPage; ++page)
    if ((segment_->backed[page / 32].load(std::memory_order_acquire) >> page % 32 & 1) == 0)
      return false;
  return true;
}

bool Peer::is_stopped() noexcept {
  const std::uint32_t pid = live_pid();
  return pid != 0 && is_process_stopped(pid);
}

int Peer::open_memory() noexcept {
  const Uncancelled here;
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%u/mem", pid_);
  int opened = pid_ != 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
  // The process is still alive, so the pid was its own when we opened the file.
  if (opened >= 0 && live_pid() == 0) {
    close(opened);
    opened = -1;
  }
  int before = kNotOpened;
  if (memory_file_.compare_exchange_strong(before, opened)) return opened;
  if (opened >= 0) close(opened);  // Another thread was faster.
  return before;
}

bool Peer::has_memory() const noexcept {
  return path_ != MemoryPath::process || process_vm_works(*segment_);
}

/// Opens the file of a memory object. The number of the descriptor selects it; the inode shows
/// whether the descriptor still refers to the same file.
int Peer::open_object(std::uint32_t index, std::uint64_t& inode) noexcept {
  const MemoryObject& object = segment_->objects[index];
  if (!is_backed(&object, sizeof object)) return -1;
  const std::uint32_t fd_plus_one = object.fd.load(std::memory_order_acquire);
  inode = __atomic_load_n(&object.inode, __ATOMIC_RELAXED);
  const std::uint32_t pid = live_pid();
  if (fd_plus_one == 0 || pid == 0) return -1;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%u/fd/%u", pid, fd_plus_one - 1);
  const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  struct stat info{};
  if (fd < 0 || (fstat(fd, &info) == 0 && info.st_ino == inode)) return fd;
  close(fd);
  return -1;
}

const Window* Peer::map_window(std::uint32_t index) noexcept {
  static constinit detail::Once<bool> allowed;
  if (!allowed([] { return memory_policy().map_objects; })) return nullptr;
  const Uncancelled here;
  const std::lock_guard lock{mutex_};
  WindowSlot& slot = windows_[index];
  Window* const former = slot.load();
  if (former != nullptr && is_current(index, *former)) return former;  // Another thread was first.
  std::unique_ptr<Window> window{new (std::nothrow) Window{}};
  if (window == nullptr) return nullptr;
  const int fd = open_object(index, window->inode);
  if (fd < 0) return nullptr;
  struct stat info{};
  void* mapped = MAP_FAILED;
  // Nobody can shrink a sealed object. Otherwise a copy could raise SIGBUS.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &info) == 0 && info.st_size > 0)
    mapped = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ | PROT_WRITE,
                  MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) return nullptr;
  window->address = static_cast<std::byte*>(mapped);
  window->bytes = static_cast<std::uint64_t>(info.st_size);
  windows_end_ = std::max(windows_end_, index + 1);
  slot.store(window.get(), std::memory_order_release);
  if (former != nullptr) {
    former->next = std::exchange(retired_, former);
    all_->note_retired();
  }
  return window.release();
}

Window* Peer::retire_windows(bool all) noexcept {
  const std::lock_guard lock{mutex_};
  Window* list = std::exchange(retired_, nullptr);
  for (std::uint32_t index = 0; index < windows_end_; ++index) {
    Window* const window = windows_[index].load(std::memory_order_relaxed);
    if (window == nullptr || (!all && is_current(index, *window))) continue;
    windows_[index].store(nullptr);
    window->next = std::exchange(list, window);
  }
  return list;
}

void Peer::ring_doorbell() noexcept {
  segment_->doorbell.fetch_add(1);
  if (segment_->helper_sleeps.load() != 0)
    syscall(SYS_futex, &segment_->doorbell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

int Peer::open_channel(const Directory& directory, std::uint32_t number) noexcept {
  if ((number & kPipeChannel) == 0) {
    // Opened for reading too, because a write to a FIFO without a reader raises SIGPIPE.
    return open(directory.path_of('c', segment_->slot, number).text,
                O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  }
  const std::uint32_t index = number & ~kPipeChannel;
  std::uint64_t inode = 0;
  struct stat info{};
  const int fd = index < kMemoryObjects ? open_object(index, inode) : -1;
  if (fd < 0 || (fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode))) return fd;
  close(fd);
  return -1;
}

/// The inode of the pipe that has this number now; 0 for a FIFO, whose number is its own for good.
std::uint64_t Peer::pipe_inode(std::uint32_t number) const noexcept {
  const std::uint32_t index = number & ~kPipeChannel;
  if ((number & kPipeChannel) == 0 || index >= kMemoryObjects) return 0;
  const MemoryObject& object = segment_->objects[index];
  return is_backed(&object, sizeof object) ? __atomic_load_n(&object.inode, __ATOMIC_RELAXED) : 0;
}

/// The descriptor of a channel, opened if needed. The caller holds the lock. -1: there is none.
int Peer::channel_file(const Directory& directory, std::uint32_t number) noexcept {
  if (is_self()) {
    const auto own = own_channels_.find(number);
    return own != own_channels_.end() ? own->second : -1;
  }
  const std::uint64_t inode = pipe_inode(number);
  auto channel = std::ranges::find_if(channels_, [&](const Channel& each) {
    return each.fd >= 0 && each.number == number && each.inode == inode;
  });
  if (channel == channels_.end()) {
    const Uncancelled here;
    channel = std::ranges::min_element(channels_, {}, &Channel::used);
    const int fd = open_channel(directory, number);
    if (fd < 0) return -1;
    if (channel->fd >= 0) close(channel->fd);
    *channel = {.number = number, .fd = fd, .inode = inode};
  }
  channel->used = ++channel_uses_;
  return channel->fd;
}

bool Peer::write_channel(const Directory& directory, std::uint32_t number,
                         std::span<const std::byte> message) noexcept {
  const std::lock_guard lock{mutex_};
  const int fd = channel_file(directory, number);
  if (fd < 0) return is_self();  // Nobody waits for a channel of ours that is gone.
  // This does not call write(), which is a cancellation point.
  return syscall(SYS_write, fd, message.data(), message.size()) >= 0 || errno != EAGAIN;
}

bool Peer::add_own_channel(std::uint32_t number, int fd) noexcept {
  const std::lock_guard lock{mutex_};
  try {
    own_channels_.emplace(number, fd);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Peer::remove_own_channel(std::uint32_t number) noexcept {
  const std::lock_guard lock{mutex_};
  own_channels_.erase(number);
}

void Peer::close_channels() noexcept {
  const std::lock_guard lock{mutex_};
  for (Channel& channel : channels_) {
    if (channel.fd >= 0) close(channel.fd);
    channel = {};
  }
}

}  // namespace verbatim::engine
