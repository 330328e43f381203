// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/environment.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/slot_files.hpp"

namespace verbatim::engine {
namespace {

Error refused(const char* why, const std::string& path) {
  return Error{.code = Errc::permission_denied, .operation = "soft directory", .field = why}
      .with_text(path);
}

/// The system refused us the directory, or a file in it.
Error cannot(const char* operation, int os_error, std::string_view path) {
  Error error = os_failure(operation, os_error).with_text(path);
  error.field = "soft directory";
  return error;
}

/// The meaning of each byte of a segment file that is locked; see the header.
enum Byte : off_t { right_to_slot, life };

flock lock_of(Byte byte) noexcept {
  flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

/// The identity of a directory, mixed so that it does not look like the id of a real fabric.
std::uint64_t identity_of(const struct stat& directory) noexcept {
  const std::uint64_t id = directory.st_dev * 0x9e3779b97f4a7c15u ^ directory.st_ino;
  return (id ^ id >> 29) * 0xbf58476d1ce4e5b9u | 1;
}

/// The sticky bit marks a directory that we created, and may remove.
constexpr mode_t kMadeByUs = 01700;

/// The directory must be a real directory, owned by us and closed to others. Otherwise another user
/// could feed us data.
Result<struct stat> inspect(const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return std::unexpected(cannot("lstat", errno, path));
  if (S_ISLNK(info.st_mode)) return std::unexpected(refused("is a symbolic link", path));
  if (!S_ISDIR(info.st_mode)) return std::unexpected(refused("is not a directory", path));
  if (info.st_uid != geteuid()) {
    Error error = refused("is owned by uid", path);
    error.value = info.st_uid;
    return std::unexpected(error);
  }
  if ((info.st_mode & 077) != 0) {
    Error error = refused("is open to others: mode", path);
    error.value = info.st_mode & 0777;
    return std::unexpected(error);
  }
  return info;
}

Result<struct stat> make_and_inspect(const std::string& path) {
  if (mkdir(path.c_str(), kMadeByUs) != 0 && errno != EEXIST)
    return std::unexpected(cannot("mkdir", errno, path));
  return inspect(path);
}

/// How often a starting process tries again when an ending process removes the directory under it.
constexpr int kTries = 100;

bool lock_file(int fd, Byte byte) noexcept {
  flock lock = lock_of(byte);
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

enum class File : std::uint8_t { fresh, used, removed };
/// The state of the file that we have locked. Only a file that still has its name stands for the
/// slot.
File state_of(int fd) noexcept {
  struct stat info{};
  if (fstat(fd, &info) != 0 || info.st_nlink == 0) return File::removed;
  return info.st_size == 0 ? File::fresh : File::used;
}

Result<struct stat> settle_at(const std::string& path) {
  auto info = make_and_inspect(path);
  // The last process to end may remove the directory between the two steps.
  for (int again = 0; again < kTries && !info && info.error().os_error == ENOENT; ++again)
    info = make_and_inspect(path);
  return info;
}

/// Whether another user owns that name.
bool is_squatted(const std::string& path) noexcept {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 && info.st_uid != geteuid();
}

bool is_private_to_us(const std::string& path) noexcept {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 022) == 0;
}

DirectoryPlaces usual_places() {
  const std::string uid = std::to_string(geteuid());
  const std::string home = "/run/user/" + uid;
  return {"/dev/shm/verbatim-" + uid, home, home + "/verbatim"};
}

std::string path_among(const DirectoryPlaces& places) {
  if (const char* const named = environment("VERBATIM_SOFT_DIR")) {
    // The process may change its working directory later.
    std::error_code no_working_directory;
    const auto absolute = std::filesystem::absolute(named, no_working_directory);
    return no_working_directory ? std::string{named} : absolute.string();
  }
  const bool has_second = is_squatted(places.first) && is_private_to_us(places.second_parent);
  return has_second ? places.second : places.first;
}

}  // namespace

Result<Directory> Directory::open() { return open_at(usual_places()); }

std::string Directory::usual_path() { return path_among(usual_places()); }

Result<Directory> Directory::open_at(const DirectoryPlaces& places) {
  std::string path = path_among(places);
  const auto info = settle_at(path);
  if (!info) return std::unexpected(info.error());
  return Directory{std::move(path), identity_of(*info)};
}

bool Directory::is_reachable() const noexcept {
  struct stat info{};
  return lstat(path_.c_str(), &info) == 0 && identity_of(info) == fabric_id_;
}

FilePath Directory::path_of(char kind, std::uint32_t slot, std::uint32_t number) const noexcept {
  FilePath path;
  const int length =
      std::snprintf(path.text, sizeof path.text, "%s/%c%u-%u", path_.c_str(), kind, slot, number);
  // No file has an empty name, so opening this path fails with "no such file".
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof path.text) path.text[0] = '\0';
  return path;
}

bool Directory::is_held(int fd) noexcept {
  flock lock = lock_of(life);
  // If the query fails, the process counts as alive. An error must not make us take over a live
  // slot.
  return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

Result<ClaimedSlot> Directory::claim() const {
  int stale = 0;
  for (std::uint32_t slot = 0; slot < kProcessSlots; ++slot) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    int fd = ::open(segment_file(slot).text, kFlags, 0600);
    // The last process to end may just have removed the directory.
    for (int again = 0; again < kTries && fd < 0 && errno == ENOENT; ++again) {
      if (mkdir(path_.c_str(), kMadeByUs) != 0 && errno != EEXIST) break;
      fd = ::open(segment_file(slot).text, kFlags, 0600);
    }
    if (fd < 0) return std::unexpected(cannot("open", errno, segment_file(slot).text));
    if (!lock_file(fd, right_to_slot)) {
      ::close(fd);
      continue;
    }
    const File found = state_of(fd);
    if (found == File::fresh && lock_file(fd, life)) {
      // A process that ended without a free descriptor could not look for its channels.
      remove_other_files(slot);
      return ClaimedSlot{slot, fd};
    }
    // The file is the segment of a dead process. Peers may still have it mapped, so it is not
    // reused: a new file takes its name. A file that was removed meanwhile needs no more work.
    if (found == File::used) remove_files(slot);
    ::close(fd);
    // Other processes do the same at this moment. But if nobody may remove it, it stays for ever.
    if (++stale > kTries) return std::unexpected(cannot("unlink", EACCES, segment_file(slot).text));
    --slot;
  }
  return std::unexpected(Error{.code = Errc::out_of_resources,
                               .operation = "soft directory",
                               .field = "processes",
                               .value = kProcessSlots,
                               .limit = kProcessSlots});
}

void Directory::remove_other_files(std::uint32_t slot) const noexcept {
  for_each_slot_file(path_, [&](const SlotFile& file) {
    if (file.slot == slot && !file.is_segment()) unlinkat(file.folder, file.name, 0);
    return true;
  });
}

void Directory::remove_files(std::uint32_t slot) const noexcept {
  // The segment goes last. The lock goes with it, and then the slot may belong to another process.
  remove_other_files(slot);
  unlink(segment_file(slot).text);
}

/// Removes the files of killed processes, so that the last process to end leaves nothing. A live
/// process does the same at its end, so the search stops at the first one. Otherwise many processes
/// that end at once would look at each other's slots for as long as they took to start.
void Directory::sweep() const noexcept {
  for_each_slot_file(path_, [&](const SlotFile& file) {
    if (!file.is_segment()) return true;
    const auto fd = open_slot(file.slot);
    if (!fd) return true;
    // This takes the lock instead of only testing it, because another process may be about to claim
    // the slot.
    const bool is_dead = lock_file(*fd, right_to_slot);
    if (is_dead && state_of(*fd) != File::removed) remove_files(file.slot);
    ::close(*fd);
    return is_dead;
  });
}

void Directory::release(std::uint32_t slot) const noexcept {
  remove_files(slot);
  sweep();
  struct stat info{};
  if (lstat(path_.c_str(), &info) == 0 && (info.st_mode & S_ISVTX) != 0)
    rmdir(path_.c_str());  // Fails while other processes use it, as it should.
}

Result<int> Directory::open_slot(std::uint32_t slot) const noexcept {
  const int fd = ::open(segment_file(slot).text, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::unexpected(os_failure("open", errno).with_text(segment_file(slot).text));
  return fd;
}

}  // namespace verbatim::engine
