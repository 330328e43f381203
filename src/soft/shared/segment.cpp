// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "verbatim/base/try.hpp"

namespace verbatim::engine {
namespace {

constexpr std::uint64_t round_up(std::uint64_t bytes) noexcept {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

std::uint64_t own_pid_namespace() noexcept {
  struct stat info{};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

std::uint64_t start_time_of(std::uint32_t pid) {
  // Field 22 of the line; the second, the name, may hold spaces and parentheses.
  std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
  std::string line;
  std::getline(file, line);
  std::size_t at = line.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = line.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(line.c_str() + at, nullptr, 10);
}

OwnSegment::OwnSegment(const Directory& directory, ClaimedSlot claimed, Segment* mapped,
                       SharedRegion* regions) noexcept
    : directory_(directory),
      slot_(claimed.slot),
      fd_(claimed.fd),
      segment_(mapped),
      regions_(regions),
      tag_(tag_of(claimed.slot, mapped->nonce)) {
  free_.emplace(kRingsOffset, kSegmentBytes - kRingsOffset);
}

Result<std::unique_ptr<OwnSegment>> OwnSegment::create(const Directory& directory) {
  const ClaimedSlot claimed = VERBATIM_TRY(directory.claim());
  const auto give_up = [&](const char* operation) {
    const int failure = errno;
    directory.release(claimed.slot);
    close(claimed.fd);
    return std::unexpected(os_failure(operation, failure).with_text(directory.path()));
  };
  if (ftruncate(claimed.fd, static_cast<off_t>(kSegmentBytes)) != 0) return give_up("ftruncate");
  if (const int failed = posix_fallocate(claimed.fd, 0, offsetof(Segment, objects))) {
    errno = failed;
    return give_up("fallocate");
  }
  void* const address = mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_NORESERVE, claimed.fd, 0);
  if (address == MAP_FAILED) return give_up("mmap");
  void* const regions = mmap(nullptr, kRegions * sizeof(SharedRegion), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (regions == MAP_FAILED) return give_up("mmap");
  auto* const segment = static_cast<Segment*>(address);
  std::uint64_t nonce = 0;
  if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) return give_up("getrandom");
  segment->version = layout_version();
  segment->slot = claimed.slot;
  segment->nonce = nonce;
  segment->pid = static_cast<std::uint32_t>(getpid());
  segment->pid_namespace = own_pid_namespace();
  segment->start_time = start_time_of(segment->pid);
  static std::uint64_t probe;
  probe = nonce;
  segment->probe_address = reinterpret_cast<std::uintptr_t>(&probe);
  // Peers believe the rest only when they see the magic.
  std::atomic_ref{segment->magic}.store(kMagic, std::memory_order_release);
  return std::unique_ptr<OwnSegment>{
      new OwnSegment{directory, claimed, segment, static_cast<SharedRegion*>(regions)}};
}

void OwnSegment::abandon() noexcept {
  abandoned_ = true;
  close(fd_);
}

void OwnSegment::remove_files() noexcept {
  if (!abandoned_ && !std::exchange(removed_, true)) directory_.release(slot_);
}

OwnSegment::~OwnSegment() {
  if (abandoned_) return;
  remove_files();
  munmap(segment_, kSegmentBytes);
  munmap(regions_, kRegions * sizeof(SharedRegion));
  close(fd_);  // Drops the lock: from here on the slot is free.
}

Result<void> OwnSegment::reserve(std::uint64_t offset, std::uint64_t bytes) {
  if (const int failed =
          posix_fallocate(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes))) {
    Error error = os_failure("fallocate", failed).with_text(directory_.path());
    error.field = "shared memory bytes";
    error.value = bytes;
    return std::unexpected(error);
  }
  return {};
}

Result<void> OwnSegment::back(const void* entry, std::size_t bytes) {
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(entry) -
                                                 reinterpret_cast<std::byte*>(segment_));
  return reserve(offset, bytes);
}

Result<std::uint64_t> OwnSegment::allocate(std::uint64_t bytes) {
  bytes = round_up(bytes);
  const std::lock_guard lock{mutex_};
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    if (at->second < bytes) continue;
    const auto [offset, room] = *at;
    VERBATIM_TRY(reserve(offset, bytes));
    free_.erase(at);
    if (room > bytes) free_.emplace(offset + bytes, room - bytes);
    std::memset(this->at<std::byte>(offset), 0, bytes);
    return offset;
  }
  return std::unexpected(Error{.code = Errc::out_of_resources,
                               .operation = "soft segment",
                               .field = "bytes",
                               .value = bytes,
                               .limit = kSegmentBytes});
}

void OwnSegment::free(std::uint64_t offset, std::uint64_t bytes) noexcept {
  bytes = round_up(bytes);
  if (bytes == 0) return;
  // The memory goes back to the system; the address range stays ours.
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  const std::lock_guard lock{mutex_};
  auto [here, added] = free_.emplace(offset, bytes);
  if (!added) return;
  if (const auto next = std::next(here);
      next != free_.end() && here->first + here->second == next->first) {
    here->second += next->second;
    free_.erase(next);
  }
  if (here != free_.begin()) {
    const auto before = std::prev(here);
    if (before->first + before->second == here->first) {
      before->second += here->second;
      free_.erase(here);
    }
  }
}

}  // namespace verbatim::engine
