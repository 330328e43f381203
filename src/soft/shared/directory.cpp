// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bitset>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/environment.hpp"
#include "soft/shared/layout.hpp"

namespace verbatim::engine {
namespace {

Error refused(const char* why, const std::string& path) {
  return Error{.code = Errc::permission_denied, .operation = "soft directory", .field = why}
      .with_text(path);
}

/// The system's refusal to let us have the directory, or a file in it.
Error cannot(const char* operation, int os_error, std::string_view path) {
  Error error = os_failure(operation, os_error).with_text(path);
  error.field = "soft directory";
  return error;
}

/// What a byte of a segment file stands for: see the header.
enum Byte : off_t { right_to_slot, life };

flock lock_of(Byte byte) noexcept {
  flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

/// The sticky bit says that nobody but us wants the directory.
constexpr mode_t kMadeByUs = 01700;

/// Owned by us, a real directory, closed to others: else somebody could feed us their bytes.
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

/// Who comes may meet so many who go, one after another.
constexpr int kTries = 100;

bool lock_file(int fd, Byte byte) noexcept {
  flock lock = lock_of(byte);
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

enum class File : std::uint8_t { fresh, used, removed };
/// What we have locked: only a file that still has its name stands for the slot.
File state_of(int fd) noexcept {
  struct stat info{};
  if (fstat(fd, &info) != 0 || info.st_nlink == 0) return File::removed;
  return info.st_size == 0 ? File::fresh : File::used;
}

Result<struct stat> settle_at(const std::string& path) {
  auto info = make_and_inspect(path);
  // The last process out may remove it between the two steps.
  for (int again = 0; again < kTries && !info && info.error().os_error == ENOENT; ++again)
    info = make_and_inspect(path);
  return info;
}

/// Whether somebody else sits at that name.
bool is_squatted(const std::string& path) noexcept {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 && info.st_uid != geteuid();
}

bool is_private_to_us(const std::string& path) noexcept {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 022) == 0;
}

/// Those that belong to slots, until `visit(folder, name, kind, slot)` says no.
template <class Visit>
void for_each_file(const std::string& path, Visit visit) noexcept {
  DIR* const all = opendir(path.c_str());
  if (all == nullptr) return;
  while (const dirent* const entry = readdir(all)) {
    char kind = 0;
    unsigned slot = 0;
    unsigned number = 0;
    if (std::sscanf(entry->d_name, "%c%u-%u", &kind, &slot, &number) == 3 &&
        !visit(dirfd(all), entry->d_name, kind, slot))
      break;
  }
  closedir(all);
}

DirectoryPlaces usual_places() {
  const std::string uid = std::to_string(geteuid());
  const std::string home = "/run/user/" + uid;
  return {"/dev/shm/verbatim-" + uid, home, home + "/verbatim"};
}

std::string path_among(const DirectoryPlaces& places) {
  const char* const named = environment("VERBATIM_SOFT_DIR");
  if (named != nullptr) return named;
  const bool has_second = is_squatted(places.first) && is_private_to_us(places.second_parent);
  return has_second ? places.second : places.first;
}

}  // namespace

DirectoryUse Directory::survey(const std::string& path) noexcept {
  std::bitset<kProcessSlots> living;
  std::bitset<kProcessSlots> dead;
  for_each_file(path, [&](int folder, const char* name, char kind, std::uint32_t slot) {
    if (kind != 'p' || slot >= kProcessSlots) return true;
    const int fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return true;
    (is_held(fd) ? living : dead).set(slot);
    ::close(fd);
    return true;
  });
  DirectoryUse use{.living = static_cast<std::uint32_t>(living.count()),
                   .dead = static_cast<std::uint32_t>(dead.count())};
  for_each_file(path, [&](int folder, const char* name, char, std::uint32_t slot) {
    struct stat info{};
    if (slot < kProcessSlots && dead[slot] &&
        fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0)
      use.dead_bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
    return true;
  });
  return use;
}

Result<Directory> Directory::open() { return open_at(usual_places()); }

std::string Directory::usual_path() { return path_among(usual_places()); }

Result<Directory> Directory::open_at(const DirectoryPlaces& places) {
  std::string path = path_among(places);
  const auto info = settle_at(path);
  if (!info) return std::unexpected(info.error());
  // The directory's identity, mixed so that it looks like no real fabric's id.
  std::uint64_t id = info->st_dev * 0x9e3779b97f4a7c15u ^ info->st_ino;
  id = (id ^ id >> 29) * 0xbf58476d1ce4e5b9u | 1;
  return Directory{std::move(path), id};
}

FilePath Directory::path_of(char kind, std::uint32_t slot, std::uint32_t number) const noexcept {
  FilePath path;
  const int length =
      std::snprintf(path.text, sizeof path.text, "%s/%c%u-%u", path_.c_str(), kind, slot, number);
  // No file has an empty name: whoever opens it hears that there is none.
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof path.text) path.text[0] = '\0';
  return path;
}

bool Directory::is_held(int fd) noexcept {
  flock lock = lock_of(life);
  // What cannot be asked counts as alive: an error must not make us take over a living slot.
  return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

Result<ClaimedSlot> Directory::claim() const {
  for (std::uint32_t slot = 0; slot < kProcessSlots; ++slot) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    int fd = ::open(segment_file(slot).text, kFlags, 0600);
    // The last process out may just have removed the directory.
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
    if (found == File::fresh && lock_file(fd, life)) return ClaimedSlot{slot, fd};
    // A dead process's segment: peers may still have it mapped, so it is not reused; a new file
    // takes its name. One that was removed under our hands is nobody's business any more.
    if (found == File::used) remove_files(slot);
    ::close(fd);
    --slot;
  }
  return std::unexpected(Error{.code = Errc::out_of_resources,
                               .operation = "soft directory",
                               .field = "processes",
                               .value = kProcessSlots,
                               .limit = kProcessSlots});
}

void Directory::remove_files(std::uint32_t slot) const noexcept {
  // The segment last: with it the lock goes, and the slot is somebody else's.
  for_each_file(path_, [&](int folder, const char* name, char kind, std::uint32_t owner) {
    if (owner == slot && kind != 'p') unlinkat(folder, name, 0);
    return true;
  });
  unlink(segment_file(slot).text);
}

/// What killed processes left, so that the last one out leaves nothing. Whoever lives will do the
/// same at its end: the first of them ends the search, or many that end at once would look at each
/// other's slots for as long as they took to start.
void Directory::sweep() const noexcept {
  for_each_file(path_, [&](int, const char*, char kind, std::uint32_t slot) {
    if (kind != 'p') return true;
    const auto fd = open_slot(slot);
    if (!fd) return true;
    // Locked, not only looked at: somebody may be about to claim it.
    const bool is_dead = lock_file(*fd, right_to_slot);
    if (is_dead && state_of(*fd) != File::removed) remove_files(slot);
    ::close(*fd);
    return is_dead;
  });
}

void Directory::release(std::uint32_t slot) const noexcept {
  remove_files(slot);
  sweep();
  struct stat info{};
  if (lstat(path_.c_str(), &info) == 0 && (info.st_mode & S_ISVTX) != 0)
    rmdir(path_.c_str());  // Fails, as it should, while other processes are there.
}

Result<int> Directory::open_slot(std::uint32_t slot) const noexcept {
  const int fd = ::open(segment_file(slot).text, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::unexpected(os_failure("open", errno).with_text(segment_file(slot).text));
  return fd;
}

}  // namespace verbatim::engine
