// SPDX-License-Identifier: MIT OR Apache-2.0
// The stat() family of the C library, for our files. Calls for all other files go straight to the C
// library.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstring>

#include "preload/original.hpp"
#include "preload/place.hpp"

namespace verbatim::preload {
namespace {

using Kind = SystemFile::Kind;

constinit Original<int(const char*, struct stat*)> original_stat{"stat"};
constinit Original<int(const char*, struct stat64*)> original_stat64{"stat64"};
constinit Original<int(const char*, struct stat*)> original_lstat{"lstat"};
constinit Original<int(const char*, struct stat64*)> original_lstat64{"lstat64"};
constinit Original<int(int, struct stat*)> original_fstat{"fstat"};
constinit Original<int(int, struct stat64*)> original_fstat64{"fstat64"};
constinit Original<int(int, const char*, struct stat*, int)> original_fstatat{"fstatat"};
constinit Original<int(int, const char*, struct stat64*, int)> original_fstatat64{"fstatat64"};
constinit Original<int(int, const char*, int, unsigned, struct statx*)> original_statx{"statx"};

constexpr unsigned kMajor = 231;  // The kernel's major number for such nodes,
constexpr unsigned kMinor = 192;  // and its first minor number.
/// A file system number that the kernel does not use: it numbers file systems without a disk from
/// 1.
constexpr unsigned kFileSystem = 0xfffff;

mode_t mode_of(const SystemFile& file) noexcept {
  if (file.kind == Kind::node) return S_IFCHR | 0666;
  return file.kind == Kind::directory ? S_IFDIR | 0755 : S_IFREG | 0444;
}

template <class Structure>
int describe(const SystemFile& file, Structure* info) noexcept {
  std::memset(info, 0, sizeof *info);
  info->st_dev = makedev(0, kFileSystem);
  info->st_ino = file.number;
  info->st_mode = mode_of(file);
  info->st_nlink = 1;
  info->st_blksize = 4096;
  info->st_size = file.kind == Kind::attribute ? 4096 : 0;  // As in sysfs.
  if (file.kind == Kind::node) info->st_rdev = makedev(kMajor, kMinor + file.device);
  return 0;
}

int describe(const SystemFile& file, unsigned mask, struct statx* info) noexcept {
  struct stat plain;
  describe(file, &plain);
  std::memset(info, 0, sizeof *info);
  info->stx_mask = mask & STATX_BASIC_STATS;
  info->stx_dev_minor = kFileSystem;
  info->stx_ino = plain.st_ino;
  info->stx_mode = static_cast<std::uint16_t>(plain.st_mode);
  info->stx_nlink = 1;
  info->stx_blksize = 4096;
  info->stx_size = static_cast<std::uint64_t>(plain.st_size);
  info->stx_rdev_major = major(plain.st_rdev);
  info->stx_rdev_minor = minor(plain.st_rdev);
  return 0;
}

/// Whether the call is about the descriptor itself.
bool is_itself(const char* path, int flags) noexcept {
  return (flags & AT_EMPTY_PATH) != 0 && (path == nullptr || *path == '\0');
}

/// Runs before main(). A thread that a fork leaves behind may hold the dynamic linker's lock, and
/// then the child could not look up anything.
[[gnu::constructor]] void find_stat_originals() noexcept {
  original_stat.find();
  original_stat64.find();
  original_lstat.find();
  original_lstat64.find();
  original_fstat.find();
  original_fstat64.find();
  original_fstatat.find();
  original_fstatat64.find();
  original_statx.find();
}

}  // namespace
}  // namespace verbatim::preload

using namespace verbatim::preload;

VERBATIM_EXPORT int stat(const char* path, struct stat* info) noexcept {
  const Place place{path};
  return place.is_ours() ? describe(place.file(), info) : original_stat(place.path(), info);
}

VERBATIM_EXPORT int stat64(const char* path, struct stat64* info) noexcept {
  const Place place{path};
  return place.is_ours() ? describe(place.file(), info) : original_stat64(place.path(), info);
}

VERBATIM_EXPORT int lstat(const char* path, struct stat* info) noexcept {
  const Place place{path};
  return place.is_ours() ? describe(place.file(), info) : original_lstat(place.path(), info);
}

VERBATIM_EXPORT int lstat64(const char* path, struct stat64* info) noexcept {
  const Place place{path};
  return place.is_ours() ? describe(place.file(), info) : original_lstat64(place.path(), info);
}

VERBATIM_EXPORT int fstat(int fd, struct stat* info) noexcept {
  const Place place{fd, "."};
  return place.is_ours() ? describe(place.file(), info) : original_fstat(fd, info);
}

VERBATIM_EXPORT int fstat64(int fd, struct stat64* info) noexcept {
  const Place place{fd, "."};
  return place.is_ours() ? describe(place.file(), info) : original_fstat64(fd, info);
}

VERBATIM_EXPORT int fstatat(int directory, const char* path, struct stat* info,
                            int flags) noexcept {
  const Place place{directory, is_itself(path, flags) ? "." : path};
  if (place.is_ours()) return describe(place.file(), info);
  if (is_itself(path, flags)) return original_fstatat(directory, path, info, flags);
  return original_fstatat(place.directory(), place.path(), info, flags);
}

VERBATIM_EXPORT int fstatat64(int directory, const char* path, struct stat64* info,
                              int flags) noexcept {
  const Place place{directory, is_itself(path, flags) ? "." : path};
  if (place.is_ours()) return describe(place.file(), info);
  if (is_itself(path, flags)) return original_fstatat64(directory, path, info, flags);
  return original_fstatat64(place.directory(), place.path(), info, flags);
}

VERBATIM_EXPORT int statx(int directory, const char* path, int flags, unsigned mask,
                          struct statx* info) noexcept {
  const Place place{directory, is_itself(path, flags) ? "." : path};
  if (place.is_ours()) return describe(place.file(), mask, info);
  if (is_itself(path, flags)) return original_statx(directory, path, flags, mask, info);
  return original_statx(place.directory(), place.path(), flags, mask, info);
}

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the C library's names

// The names of these functions in programs that were linked before glibc 2.33. The version is that
// of the structure, and there is only one.
VERBATIM_EXPORT int __xstat(int, const char* path, struct stat* info) noexcept {
  return stat(path, info);
}
VERBATIM_EXPORT int __xstat64(int, const char* path, struct stat64* info) noexcept {
  return stat64(path, info);
}
VERBATIM_EXPORT int __lxstat(int, const char* path, struct stat* info) noexcept {
  return lstat(path, info);
}
VERBATIM_EXPORT int __lxstat64(int, const char* path, struct stat64* info) noexcept {
  return lstat64(path, info);
}
VERBATIM_EXPORT int __fxstat(int, int fd, struct stat* info) noexcept { return fstat(fd, info); }
VERBATIM_EXPORT int __fxstat64(int, int fd, struct stat64* info) noexcept {
  return fstat64(fd, info);
}
VERBATIM_EXPORT int __fxstatat(int, int directory, const char* path, struct stat* info,
                               int flags) noexcept {
  return fstatat(directory, path, info, flags);
}
VERBATIM_EXPORT int __fxstatat64(int, int directory, const char* path, struct stat64* info,
                                 int flags) noexcept {
  return fstatat64(directory, path, info, flags);
}

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
