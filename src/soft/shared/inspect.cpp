// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/soft/inspect.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "soft/shared/directory.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/slot_files.hpp"

namespace verbatim::soft {
namespace {

using namespace verbatim::engine;

template <class T>
T field(std::span<const std::byte> entry, std::size_t offset) noexcept {
  T value{};
  std::memcpy(&value, entry.data() + offset, sizeof value);
  return value;
}

bool read_at(int fd, std::uint64_t offset, std::span<std::byte> to) noexcept {
  return pread(fd, to.data(), to.size(), static_cast<off_t>(offset)) == std::ssize(to);
}

/// Calls `visit` with the entries of a table that have memory behind them. A peer may cut the file
/// short, and then it ends early.
template <class Entry, std::size_t Count, class Visit>
void for_each_entry(int fd, std::uint64_t table, Visit&& visit) {
  constexpr std::size_t kAtOnce = std::max<std::size_t>(1, 16384 / sizeof(Entry));
  std::vector<std::byte> block(kAtOnce * sizeof(Entry));
  for (std::size_t index = 0; index < Count;) {
    const std::uint64_t at = table + index * sizeof(Entry);
    const off_t data = lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return;  // Nothing more in the whole file.
    if (data > static_cast<off_t>(at))
      index = (static_cast<std::uint64_t>(data) - table) / sizeof(Entry);
    if (index >= Count) return;
    const std::size_t some = std::min(kAtOnce, Count - index);
    const auto bytes = std::span{block}.first(some * sizeof(Entry));
    if (!read_at(fd, table + index * sizeof(Entry), bytes)) return;
    for (std::size_t each = 0; each < some; ++each)
      visit(std::span<const std::byte>{bytes}.subspan(each * sizeof(Entry), sizeof(Entry)));
    index += some;
  }
}

void read_queue_pairs(int fd, InspectedProcess& process) {
  constexpr std::size_t kReceives = offsetof(SharedQueuePair, receives);
  for_each_entry<SharedQueuePair, kQueuePairs>(
      fd, offsetof(Segment, queue_pairs), [&](std::span<const std::byte> entry) {
        const auto number = field<std::uint32_t>(entry, offsetof(SharedQueuePair, number));
        if (number == 0 || slot_of(number) != process.slot) return;
        process.queue_pairs.push_back(
            {.number = QpNumber{number},
             .state = field<std::uint32_t>(entry, offsetof(SharedQueuePair, state)),
             .type = field<std::uint32_t>(entry, offsetof(SharedQueuePair, type)),
             .peer = QpNumber{field<std::uint32_t>(entry, offsetof(SharedQueuePair, peer))},
             .receives_posted =
                 field<std::uint32_t>(entry, kReceives + offsetof(SharedReceives, posted)),
             .receives_taken =
                 field<std::uint32_t>(entry, kReceives + offsetof(SharedReceives, taken))});
      });
}

void read_completion_queues(int fd, InspectedProcess& process) {
  for_each_entry<SharedCompletionQueue, kCompletionQueues>(
      fd, offsetof(Segment, completion_queues), [&](std::span<const std::byte> entry) {
        if (field<std::uint32_t>(entry, offsetof(SharedCompletionQueue, generation)) % 2 == 0)
          return;
        ++process.completion_queues;
        process.completions += field<std::uint32_t>(entry, offsetof(SharedCompletionQueue, head));
      });
}

void read_memory(int fd, InspectedProcess& process) {
  for_each_entry<SharedRegion, kRegions>(
      fd, offsetof(Segment, regions), [&](std::span<const std::byte> entry) {
        if (field<std::uint32_t>(entry, offsetof(SharedRegion, key)) == 0) return;
        ++process.regions;
        process.region_bytes += field<std::uint64_t>(entry, offsetof(SharedRegion, length));
      });
  for_each_entry<MemoryObject, kMemoryObjects>(
      fd, offsetof(Segment, objects), [&](std::span<const std::byte> entry) {
        if (field<std::uint32_t>(entry, offsetof(MemoryObject, fd)) != 0)
          process.object_bytes += field<std::uint64_t>(entry, offsetof(MemoryObject, bytes));
      });
}

std::uint64_t own_pid_namespace() noexcept {
  struct stat info{};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

/// Nothing for a file that is not a segment, or is not ours.
std::optional<InspectedProcess> read_process(int fd, std::uint32_t slot) {
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid())
    return std::nullopt;
  std::vector<std::byte> head(offsetof(Segment, doorbell));
  if (!read_at(fd, 0, head)) return std::nullopt;  // It is just being made.
  if (field<std::uint64_t>(head, offsetof(Segment, magic)) != kMagic) return std::nullopt;
  InspectedProcess process{.slot = slot, .is_alive = Directory::is_held(fd)};
  process.is_other_build =
      field<std::uint32_t>(head, offsetof(Segment, version)) != layout_version();
  if (process.is_other_build) return process;
  if (field<std::uint64_t>(head, offsetof(Segment, pid_namespace)) == own_pid_namespace())
    process.pid = static_cast<pid_t>(field<std::uint32_t>(head, offsetof(Segment, pid)));
  read_queue_pairs(fd, process);
  read_completion_queues(fd, process);
  read_memory(fd, process);
  return process;
}

}  // namespace

Result<Inspection> inspect() {
  Inspection result{.directory = Directory::usual_path(), .processes = {}};
  std::array<std::uint64_t, kProcessSlots> bytes{};
  const int failed = for_each_slot_file(result.directory, [&](const SlotFile& file) {
    struct stat info{};
    if (fstatat(file.folder, file.name, &info, AT_SYMLINK_NOFOLLOW) == 0)
      bytes[file.slot] += static_cast<std::uint64_t>(info.st_blocks) * 512;
    if (!file.is_segment()) return true;
    // Not blocking: somebody may have put a FIFO there.
    const int fd = openat(file.folder, file.name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return true;
    auto process = read_process(fd, file.slot);
    ::close(fd);
    if (process) result.processes.push_back(*std::move(process));
    return true;
  });
  if (failed == ENOENT) return result;
  if (failed != 0) return std::unexpected(os_failure("open", failed).with_text(result.directory));
  for (InspectedProcess& each : result.processes) each.file_bytes = bytes[each.slot];
  std::ranges::sort(result.processes, {}, &InspectedProcess::slot);
  return result;
}

}  // namespace verbatim::soft
