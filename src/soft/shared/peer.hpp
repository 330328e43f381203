// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The other processes, as this one sees them: their segments, their memory, their life.
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "soft/shared/directory.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/spin.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::engine {

/// How memory that a peer did not put into a memory object is reached.
enum class MemoryPath : std::uint8_t {
  direct,   ///< It is our own process.
  process,  ///< process_vm_readv / writev.
  relay,    ///< The peer's helper thread copies.
};

/// One process. Made once per process and never freed before the engine ends: queue pairs keep
/// plain pointers to it.
class Peer {
 public:
  /// `regions` is what to believe of its regions: for ourselves, not what others can write.
  Peer(Segment* mapped, int fd, MemoryPath path, const SharedRegion* regions);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] Segment& segment() const noexcept { return *segment_; }
  [[nodiscard]] const SharedRegion& region(std::uint32_t index) const noexcept {
    return regions_[index];
  }
  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }
  [[nodiscard]] std::uint32_t pid() const noexcept { return pid_; }
  [[nodiscard]] bool is_self() const noexcept { return path_ == MemoryPath::direct; }
  [[nodiscard]] MemoryPath memory_path() const noexcept { return path_; }

  /// Asks the kernel (about 0.2 us). Once dead, always dead.
  [[nodiscard]] bool is_alive() noexcept;
  /// As is_alive(), but asks at most once a millisecond: for the data path.
  [[nodiscard]] bool seems_alive() noexcept { return was_alive_lately() || ask_whether_alive(); }
  [[nodiscard]] bool was_alive_lately() const noexcept {
    return ticks() < alive_until_.load(std::memory_order_relaxed);
  }

  /// Whether its memory is still there: a process that dies loses it before its lock. Slow.
  [[nodiscard]] bool has_memory() const noexcept;

  /// Where the memory object is mapped here, or nullptr if it cannot be.
  [[nodiscard]] std::byte* object(std::uint32_t index) noexcept {
    Mapping& mapping = objects_[index];
    if (std::byte* const mapped = mapping.address.load(std::memory_order_acquire)) [[likely]]
      return current(index, mapping) ? mapped : map_object(index);
    return map_object(index);
  }
  [[nodiscard]] std::uint64_t object_bytes(std::uint32_t index) const noexcept {
    return objects_[index].bytes;
  }

  void ring_doorbell() noexcept;
  /// Asks the owner to look at its objects: one of them has a cry set.
  void call_attention() noexcept {
    segment_->attention.store(1);
    ring_doorbell();
  }
  /// The write end of one of the peer's completion channels, or -1.
  [[nodiscard]] int channel(const Directory& directory, std::uint32_t number) noexcept;

 private:
  struct Mapping {
    std::atomic<std::byte*> address{nullptr};
    std::uint64_t bytes = 0;
    std::uint64_t inode = 0;
  };
  static constexpr std::uint64_t kTicksPerQuestion = 2'000'000;  // About a millisecond.
  static std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    std::uint64_t value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value * 32;  // It runs at tens of MHz.
#endif
  }
  [[nodiscard]] bool current(std::uint32_t index, const Mapping& mapping) const noexcept {
    return segment_->objects[index].inode == mapping.inode;
  }
  [[gnu::cold]] bool ask_whether_alive() noexcept;
  [[nodiscard]] std::byte* map_object(std::uint32_t index) noexcept;

  Segment* segment_;
  const SharedRegion* regions_;
  int fd_;
  std::uint32_t tag_;
  std::uint32_t pid_;
  MemoryPath path_;
  std::atomic<bool> dead_{false};
  std::atomic<std::uint64_t> alive_until_{0};  // Until then (ticks) nobody asks.
  std::mutex mutex_;
  std::unique_ptr<Mapping[]> objects_;
  std::map<std::uint32_t, int> channels_;
};

class Peers {
 public:
  explicit Peers(const Directory& directory) noexcept : directory_(directory) {}
  ~Peers();

  /// Our own process: its segment is already mapped.
  void add_self(Segment& own, const SharedRegion* regions);
  /// The process in a slot; maps it if it is new there. nullptr: nobody is.
  [[nodiscard]] Peer* find(std::uint32_t slot) noexcept;
  /// Whether the process that wrote `tag` into a lock still lives.
  [[nodiscard]] bool is_alive(std::uint32_t tag) noexcept;

 private:
  [[nodiscard]] Peer* attach(std::uint32_t slot) noexcept;

  Directory directory_;
  std::mutex mutex_;
  std::array<std::atomic<Peer*>, kProcessSlots> current_{};
  // Peers that a newer process replaced in its slot, kept because queue pairs may point to them.
  std::vector<std::unique_ptr<Peer>> all_;
};

/// Which way the environment lets us take (`VERBATIM_SOFT_MEMORY`: mapped, process, relay; each
/// denies those before it). For tests and for asking.
struct MemoryPolicy {
  bool map_objects = true;
  bool process_vm = true;
};
[[nodiscard]] MemoryPolicy memory_policy() noexcept;

}  // namespace verbatim::engine
