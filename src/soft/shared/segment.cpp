// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "soft/shared/fault_guard.hpp"
#include "soft/shared/liveness.hpp"
#include "soft/shared/membarrier.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::engine {
namespace {

/// ThreadSanitizer does not understand membarrier: there everybody uses fences.
bool register_for_membarrier() noexcept {
  return VERBATIM_TSAN == 0 && membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

constexpr std::uint64_t round_up(std::uint64_t bytes) noexcept {
  return (bytes + kPage - 1) / kPage * kPage;
}
/// The size of everything before the tables.
constexpr std::uint64_t kHeadBytes = round_up(offsetof(Segment, objects));

/// Returns an errno, or 0. A signal can interrupt the call, however small the range is.
int fallocate_fully(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  int failed = 0;
  do {
    failed = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (failed == EINTR);
  return failed;
}

std::uint64_t file_size_limit() noexcept {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/// The error of a call that failed with this errno while the segment was created.
Error creation_failure(const char* operation, int os_error, const std::string& directory) noexcept {
  Error error = os_failure(operation, os_error).with_text(directory);
  if (os_error != EFBIG) return error;
  error.field = "file size (ulimit -f) bytes";
  error.value = kSegmentBytes;
  error.limit = file_size_limit();
  return error;
}

}  // namespace

int set_file_size(int fd, std::uint64_t bytes) noexcept {
  if (bytes > file_size_limit()) return EFBIG;
  return ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

OwnSegment::OwnSegment(Directory directory, ClaimedSlot claimed, Segment* mapped,
                       SharedRegion* regions)
    : directory_(std::move(directory)),
      slot_(claimed.slot),
      fd_(claimed.fd),
      segment_(mapped),
      regions_(regions),
      tag_(tag_of(claimed.slot, mapped->nonce)),
      free_{{kRingsOffset, kSegmentBytes - kRingsOffset}} {
  for (std::uint64_t page = 0; page < kHeadBytes / kPage; ++page) {
    backed_.set(page);
    mapped->backed[page / 32].fetch_or(1u << page % 32);
  }
}

/// Holds a slot and its mappings until an OwnSegment takes them over.
class OwnSegment::Draft {
 public:
  Draft(const Directory& directory, ClaimedSlot claimed) noexcept
      : directory_(directory), claimed_(claimed) {}
  ~Draft() {
    if (is_owned_) return;
    if (segment_ != MAP_FAILED) {
      forget_segment(segment_);
      munmap(segment_, kSegmentBytes);
    }
    if (regions_ != MAP_FAILED) munmap(regions_, kRegions * sizeof(SharedRegion));
    directory_.release(claimed_.slot);
    close(claimed_.fd);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  /// Returns the name of the call that failed, with errno, or nullptr.
  [[nodiscard]] const char* map() noexcept {
    if (const int failure = set_file_size(claimed_.fd, kSegmentBytes)) {
      errno = failure;
      return "ftruncate";
    }
    if (const int failure = fallocate_fully(claimed_.fd, 0, kHeadBytes)) {
      errno = failure;
      return "fallocate";
    }
    segment_ = mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                    claimed_.fd, 0);
    if (segment_ == MAP_FAILED) return "mmap";
    guard_faults();
    guard_segment(segment_);
    regions_ = mmap(nullptr, kRegions * sizeof(SharedRegion), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return regions_ == MAP_FAILED ? "mmap" : nullptr;
  }
  [[nodiscard]] Segment& segment() const noexcept { return *static_cast<Segment*>(segment_); }
  [[nodiscard]] std::unique_ptr<OwnSegment> finish() {
    std::unique_ptr<OwnSegment> own{
        new OwnSegment{directory_, claimed_, &segment(), static_cast<SharedRegion*>(regions_)}};
    is_owned_ = true;
    return own;
  }

 private:
  const Directory& directory_;
  ClaimedSlot claimed_;
  void* segment_ = MAP_FAILED;
  void* regions_ = MAP_FAILED;
  bool is_owned_ = false;
};

Result<std::unique_ptr<OwnSegment>> OwnSegment::create(const Directory& directory) {
  const ClaimedSlot claimed = VERBATIM_TRY(directory.claim());
  Draft draft{directory, claimed};
  const char* failed = draft.map();
  std::uint64_t nonce = 0;
  if (failed == nullptr && getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) failed = "getrandom";
  if (failed != nullptr) return std::unexpected(creation_failure(failed, errno, directory.path()));
  Segment& segment = draft.segment();
  segment.version = layout_version();
  segment.slot = claimed.slot;
  segment.nonce = nonce;
  segment.pid = static_cast<std::uint32_t>(getpid());
  const bool is_ordered = register_for_membarrier();
  segment.is_ordered = is_ordered ? 1 : 0;
  segment.pid_namespace = own_pid_namespace();
  segment.start_time = start_time_of(segment.pid);
  static std::uint64_t probe;
  probe = nonce;
  segment.probe_address = reinterpret_cast<std::uintptr_t>(&probe);
  auto own = draft.finish();
  own->is_ordered_ = is_ordered;
  // Peers believe the rest only when they see the magic.
  std::atomic_ref{segment.magic}.store(kMagic, std::memory_order_release);
  return own;
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
  const int failure = errno;  // The errno of the verb that failed.
  remove_files();
  forget_segment(segment_);
  munmap(segment_, kSegmentBytes);
  munmap(regions_, kRegions * sizeof(SharedRegion));
  close(fd_);  // Drops the lock; the slot is free now.
  errno = failure;
}

Result<void> OwnSegment::reserve(std::uint64_t offset, std::uint64_t bytes) {
  if (const int failed = fallocate_fully(fd_, offset, bytes)) {
    Error error = os_failure("fallocate", failed).with_text(directory_.path());
    error.field = "shared memory bytes";
    error.value = bytes;
    return std::unexpected(error);
  }
  return {};
}

/// The caller holds the lock.
Result<void> OwnSegment::back_pages(std::uint64_t offset, std::uint64_t bytes) {
  for (std::uint64_t page = offset / kPage; page <= (offset + bytes - 1) / kPage; ++page) {
    if (backed_.test(page)) continue;
    VERBATIM_TRY(reserve(page * kPage, kPage));
    backed_.set(page);
    segment_->backed[page / 32].fetch_or(1u << page % 32, std::memory_order_release);
  }
  return {};
}

Result<void> OwnSegment::back(const void* entry, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  return back_pages(static_cast<std::uint64_t>(static_cast<const std::byte*>(entry) -
                                               reinterpret_cast<std::byte*>(segment_)),
                    bytes);
}

Result<void> OwnSegment::back_region(std::uint32_t index) {
  const std::lock_guard lock{mutex_};
  while (regions_backed_ <= index) {
    const std::uint64_t first = regions_backed_;
    constexpr std::uint32_t kPerPage = kPage / sizeof(SharedRegion);
    VERBATIM_TRY(back_pages(offsetof(Segment, regions) + first * sizeof(SharedRegion), kPage));
    VERBATIM_TRY(back_pages(offsetof(Segment, region_marks) + first * sizeof(Word), sizeof(Word)));
    regions_backed_ += kPerPage;
    segment_->regions_backed.store(regions_backed_, std::memory_order_release);
  }
  return {};
}

Result<std::uint64_t> OwnSegment::allocate(std::uint64_t bytes) {
  bytes = round_up(bytes);
  const std::lock_guard lock{mutex_};
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    if (at->second < bytes) continue;
    const auto [offset, room] = *at;
    VERBATIM_TRY(reserve(offset, bytes));
    auto rest = free_.extract(at);
    rest.key() += bytes;
    rest.mapped() -= bytes;
    if (room > bytes) free_.insert(std::move(rest));
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
  // The memory goes back to the system, while the address range stays ours.
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  const std::lock_guard lock{mutex_};
  try {
    add_free(offset, bytes);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the comment says why
    // The address range is lost, but not the memory. There is a gigabyte of addresses.
  }
}

void OwnSegment::add_free(std::uint64_t offset, std::uint64_t bytes) {
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
