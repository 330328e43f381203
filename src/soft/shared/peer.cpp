// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/peer.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "soft/shared/segment.hpp"

namespace verbatim::engine {
namespace {

/// Whether the kernel lets us read the peer's memory: tried on a word whose value we know.
bool process_vm_works(const Segment& segment) noexcept {
  if (segment.pid_namespace != own_pid_namespace()) return false;
  std::uint64_t value = 0;
  iovec local{&value, sizeof value};
  iovec remote{reinterpret_cast<void*>(segment.probe_address), sizeof value};
  return process_vm_readv(static_cast<pid_t>(segment.pid), &local, 1, &remote, 1, 0) ==
             sizeof value &&
         value == segment.nonce;
}

}  // namespace

MemoryPolicy memory_policy() noexcept {
  const char* const named = std::getenv("VERBATIM_SOFT_MEMORY");
  const std::string_view choice = named != nullptr ? named : "mapped";
  return {.map_objects = choice != "process" && choice != "relay", .process_vm = choice != "relay"};
}

Peer::Peer(Segment* mapped, int fd, MemoryPath path, const SharedRegion* regions)
    : segment_(mapped),
      regions_(regions),
      fd_(fd),
      tag_(tag_of(mapped->slot, mapped->nonce)),
      pid_(mapped->pid),
      path_(path),
      objects_(std::make_unique<Mapping[]>(kMemoryObjects)) {}

Peer::~Peer() {
  for (const auto& [number, fd] : channels_) close(fd);
  if (is_self()) return;
  for (std::uint32_t i = 0; i < kMemoryObjects; ++i) {
    if (std::byte* const mapped = objects_[i].address.load()) munmap(mapped, objects_[i].bytes);
  }
  munmap(segment_, kSegmentBytes);
  close(fd_);
}

bool Peer::is_alive() noexcept {
  if (is_self()) return true;
  if (dead_.load()) return false;
  if (Directory::is_held(fd_)) return true;
  dead_.store(true);
  alive_until_.store(0);
  return false;
}

bool Peer::ask_whether_alive() noexcept {
  // First the time, then the question: a death in between is found out at the next one.
  const std::uint64_t until = is_self() ? ~std::uint64_t{0} : ticks() + kTicksPerQuestion;
  if (!is_alive()) return false;
  alive_until_.store(until, std::memory_order_relaxed);
  return true;
}

bool Peer::has_memory() const noexcept {
  return path_ != MemoryPath::process || process_vm_works(*segment_);
}

std::byte* Peer::map_object(std::uint32_t index) noexcept {
  static const bool allowed = memory_policy().map_objects;
  if (!allowed) return nullptr;
  const std::lock_guard lock{mutex_};
  const MemoryObject& object = segment_->objects[index];
  // Read once: a scribbling peer may change them between two looks.
  const std::uint64_t inode = object.inode;
  const std::uint64_t bytes = object.bytes;
  const std::uint32_t fd_plus_one = object.fd.load(std::memory_order_acquire);
  if (fd_plus_one == 0) return nullptr;
  Mapping& mapping = objects_[index];
  if (mapping.address.load() != nullptr && mapping.inode == inode) return mapping.address.load();
  // The descriptor number says which; the inode says whether it still is that.
  const std::string path =
      "/proc/" + std::to_string(pid_) + "/fd/" + std::to_string(fd_plus_one - 1);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat info{};
  void* mapped = MAP_FAILED;
  if (fstat(fd, &info) == 0 && info.st_ino == inode &&
      static_cast<std::uint64_t>(info.st_size) >= bytes && bytes > 0)
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) return nullptr;
  // The former mapping, if any, stays: a copy may be running in it. It goes with the peer.
  mapping.bytes = bytes;
  mapping.inode = info.st_ino;
  mapping.address.store(static_cast<std::byte*>(mapped), std::memory_order_release);
  return static_cast<std::byte*>(mapped);
}

void Peer::ring_doorbell() noexcept {
  segment_->doorbell.fetch_add(1);
  if (segment_->helper_sleeps.load() != 0)
    syscall(SYS_futex, &segment_->doorbell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

int Peer::channel(const Directory& directory, std::uint32_t number) noexcept {
  const std::lock_guard lock{mutex_};
  if (const auto known = channels_.find(number); known != channels_.end()) return known->second;
  // For reading too: a FIFO without any reader answers a write with SIGPIPE.
  const int fd = open(directory.file('c', segment_->slot, number).c_str(),
                      O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (fd >= 0) channels_.emplace(number, fd);
  return fd;
}

Peers::~Peers() = default;

void Peers::add_self(Segment& own, const SharedRegion* regions) {
  const std::lock_guard lock{mutex_};
  all_.push_back(std::make_unique<Peer>(&own, -1, MemoryPath::direct, regions));
  current_[own.slot].store(all_.back().get());
}

Peer* Peers::find(std::uint32_t slot) noexcept {
  if (slot >= kProcessSlots) return nullptr;
  Peer* const known = current_[slot].load(std::memory_order_acquire);
  if (known != nullptr && known->is_alive()) return known;
  return attach(slot);
}

Peer* Peers::attach(std::uint32_t slot) noexcept {
  const std::lock_guard lock{mutex_};
  if (Peer* const known = current_[slot].load(); known != nullptr && known->is_alive())
    return known;
  const auto fd = directory_.open_slot(slot);
  if (!fd) return nullptr;
  struct stat info{};
  // A file shorter than a segment would fault when touched beyond its end.
  if (!Directory::is_held(*fd) || fstat(*fd, &info) != 0 ||
      static_cast<std::uint64_t>(info.st_size) != kSegmentBytes) {
    close(*fd);
    return nullptr;
  }
  void* const mapped =
      mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
  if (mapped == MAP_FAILED) {
    close(*fd);
    return nullptr;
  }
  auto& segment = *static_cast<Segment*>(mapped);
  const std::uint64_t magic = std::atomic_ref{segment.magic}.load(std::memory_order_acquire);
  if (magic != kMagic || segment.version != layout_version() || segment.slot != slot) {
    munmap(mapped, kSegmentBytes);
    close(*fd);
    return nullptr;
  }
  const bool process = memory_policy().process_vm && process_vm_works(segment);
  all_.push_back(std::make_unique<Peer>(
      &segment, *fd, process ? MemoryPath::process : MemoryPath::relay, segment.regions));
  current_[slot].store(all_.back().get(), std::memory_order_release);
  return all_.back().get();
}

bool Peers::is_alive(std::uint32_t tag) noexcept {
  Peer* const peer = find(slot_of_tag(tag));
  // A newer process in the slot: the one that wrote the tag is gone.
  return peer != nullptr && peer->tag() == tag;
}

}  // namespace verbatim::engine
