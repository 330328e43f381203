// SPDX-License-Identifier: MIT OR Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/uncancelled.hpp"
#include "soft/shared/fault_guard.hpp"
#include "soft/shared/peer.hpp"
#include "soft/shared/segment.hpp"
#include "verbatim/base/log.hpp"

namespace verbatim::engine {
namespace {

/// Maps the segment of a peer, with a read-only table of regions. Returns nullptr if the file is no
/// segment of ours.
Segment* map_segment(int fd, std::uint32_t slot) noexcept {
  struct stat info{};
  // An access beyond the end of a file that is shorter than a segment would fault.
  if (!Directory::is_held(fd) || fstat(fd, &info) != 0 ||
      static_cast<std::uint64_t>(info.st_size) != kSegmentBytes)
    return nullptr;
  void* const mapped =
      mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (mapped == MAP_FAILED) return nullptr;
  guard_segment(mapped);
  auto* const segment = static_cast<Segment*>(mapped);
  const std::uint64_t magic = std::atomic_ref{segment->magic}.load(std::memory_order_acquire);
  if (magic == kMagic && segment->version == layout_version() && segment->slot == slot &&
      mprotect(segment->regions, sizeof segment->regions, PROT_READ) == 0)
    return segment;
  forget_segment(mapped);
  munmap(mapped, kSegmentBytes);
  return nullptr;
}

/// Whether the file is the segment of a process that has another layout.
bool is_of_another_build(int fd) noexcept {
  struct Head {
    std::uint64_t magic;
    std::uint32_t version;
  } head{};
  static_assert(offsetof(Segment, magic) == 0 && offsetof(Segment, version) == sizeof(head.magic));
  return pread(fd, &head, sizeof head, 0) == sizeof head && head.magic == kMagic &&
         head.version != layout_version();
}

/// The pid under which we may address the process, or 0. A pid of another namespace does not count,
/// nor one that the system has given to another process meanwhile.
std::uint32_t pid_of(const Segment& segment) noexcept {
  const std::uint32_t pid = segment.pid;
  return segment.pid_namespace == own_pid_namespace() && segment.start_time != 0 &&
                 start_time_of(pid) == segment.start_time
             ? pid
             : 0;
}

MemoryPath path_to(const Segment& segment, std::uint32_t pid) noexcept {
  if (pid == 0 || !memory_policy().process_vm) return MemoryPath::relay;
  if (process_vm_works(segment)) return MemoryPath::process;
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    log(LogLevel::warning,
        "soft0: the kernel denies access to the memory of other processes (Yama's ptrace_scope, "
        "or a container's rules): memory that is no Buffer is copied by its owner, which is slow; "
        "VERBATIM_SOFT_PTRACE=any in both processes allows it");
  return MemoryPath::relay;
}

}  // namespace

bool process_vm_works(const Segment& segment) noexcept {
  std::uint64_t value = 0;
  const iovec local{&value, sizeof value};
  const iovec remote{reinterpret_cast<void*>(segment.probe_address), sizeof value};
  // A direct system call, because sanitizers intercept the function of that name.
  return syscall(SYS_process_vm_readv, segment.pid, &local, 1, &remote, 1, 0) == sizeof value &&
         value == segment.nonce;
}

Peers::~Peers() {
  for (Peer* const peer : current_) PeerRef{peer};
  for (Peer* peer = departed_; peer != nullptr;) PeerRef{std::exchange(peer, peer->next_departed_)};
}

void Peers::add_self(Segment& own, const SharedRegion* regions) {
  self_ = new Peer{own, regions};
  current_[own.slot] = self_;
  slots_end_ = std::max(slots_end_, own.slot + 1);
}

PeerRef Peers::at(std::uint32_t slot) noexcept {
  if (slot >= kProcessSlots) return {};
  const std::lock_guard lock{table_lock_};
  Peer* const peer = current_[slot];
  if (peer != nullptr) peer->references_.fetch_add(1, std::memory_order_relaxed);
  return PeerRef{peer};
}

PeerRef Peers::find(std::uint32_t slot) noexcept {
  if (PeerRef known = at(slot); known && known->is_alive()) return known;
  return slot < kProcessSlots ? attach(slot) : PeerRef{};
}

void Peers::note_retired() noexcept {
  has_retired_.store(true);
  self_->ring_doorbell();  // The helper unmaps them.
}

void Peers::drop(std::uint32_t slot, const Peer* dead) noexcept {
  {
    const std::lock_guard lock{table_lock_};
    Peer* const peer = current_[slot];
    if (peer != dead) return;
    current_[slot] = nullptr;
    peer->next_departed_ = std::exchange(departed_, peer);
  }
  note_retired();
}

PeerRef Peers::attach(std::uint32_t slot) noexcept {
  const Uncancelled here;
  const std::lock_guard lock{mutex_};
  if (PeerRef known = at(slot)) {
    if (known->is_alive()) return known;
    drop(slot, known.get());
  }
  const auto fd = directory_.open_slot(slot);
  if (!fd) return {};
  Segment* const segment = map_segment(*fd, slot);
  if (segment == nullptr) {
    close(*fd);
    return {};
  }
  const std::uint32_t pid = pid_of(*segment);
  void* const windows = mmap(nullptr, kWindowTableBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* const peer = windows == MAP_FAILED
                         ? nullptr
                         : new (std::nothrow)
                               Peer{*this, {*segment, *fd, windows, path_to(*segment, pid), pid}};
  if (peer == nullptr) {
    if (windows != MAP_FAILED) munmap(windows, kWindowTableBytes);
    forget_segment(segment);
    munmap(segment, kSegmentBytes);
    close(*fd);
    return {};
  }
  {
    const std::lock_guard table{table_lock_};
    current_[slot] = peer;
    slots_end_ = std::max(slots_end_, slot + 1);
  }
  return at(slot);
}

bool Peers::is_dead(std::uint32_t tag) noexcept {
  const std::uint32_t slot = slot_of_tag(tag);
  if (slot >= kProcessSlots) return true;
  if (const PeerRef known = at(slot); known && known->tag() == tag) return !known->is_alive();
  // If a newer process has the slot, the one that wrote the tag is gone.
  if (const PeerRef peer = find(slot)) return peer->tag() != tag;
  const Uncancelled here;
  const auto fd = directory_.open_slot(slot);
  if (!fd) return fd.error().os_error == ENOENT && directory_.is_reachable();
  // It cannot be attached. It may be dead, but we may also lack the memory, or it is a newer
  // process that is not ready yet, or one of another build: only our own build writes tags here.
  const bool is_dead = !Directory::is_held(*fd) || is_of_another_build(*fd);
  close(*fd);
  return is_dead;
}

bool Peers::is_stopped(std::uint32_t tag) noexcept {
  const PeerRef peer = find(slot_of_tag(tag));
  return peer && peer->tag() == tag && peer->is_stopped();
}

Window* Peers::retire() noexcept {
  has_retired_.store(false);
  Window* all = nullptr;
  const auto take = [&all](Window* list) {
    while (list != nullptr) {
      Window* const window = std::exchange(list, list->next);
      window->next = std::exchange(all, window);
    }
  };
  std::uint32_t end = 0;
  {
    const std::lock_guard lock{table_lock_};
    end = slots_end_;
  }
  for (std::uint32_t slot = 0; slot < end; ++slot) {
    const PeerRef peer = at(slot);
    if (!peer || peer->is_self()) continue;
    if (!peer->is_alive()) drop(slot, peer.get());
    take(peer->retire_windows(!peer->is_alive()));
  }
  Peer* departed = nullptr;
  {
    const std::lock_guard lock{table_lock_};
    departed = std::exchange(departed_, nullptr);
  }
  while (departed != nullptr) {
    const PeerRef peer{std::exchange(departed, departed->next_departed_)};
    take(peer->retire_windows(true));
    peer->close_channels();
  }
  return all;
}

void Peers::before_fork() noexcept {
  mutex_.lock();
  table_lock_.lock();
}

void Peers::after_fork() noexcept {
  table_lock_.unlock();
  mutex_.unlock();
}

}  // namespace verbatim::engine
