// SPDX-License-Identifier: MIT OR Apache-2.0
// The C library's functions that take a path, for the paths of our devices. All others go straight
// on to the C library; an error there is the caller's to see.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "preload/original.hpp"
#include "preload/system_files.hpp"

namespace verbatim::preload {
namespace {

using Kind = SystemFile::Kind;

constinit Original<int(const char*, int, mode_t)> original_open{"open"};
constinit Original<int(const char*, int, mode_t)> original_open64{"open64"};
constinit Original<int(int, const char*, int, mode_t)> original_openat{"openat"};
constinit Original<int(int, const char*, int, mode_t)> original_openat64{"openat64"};
constinit Original<FILE*(const char*, const char*)> original_fopen{"fopen"};
constinit Original<FILE*(const char*, const char*)> original_fopen64{"fopen64"};
constinit Original<int(const char*, struct stat*)> original_stat{"stat"};
constinit Original<int(const char*, struct stat64*)> original_stat64{"stat64"};
constinit Original<int(const char*, struct stat*)> original_lstat{"lstat"};
constinit Original<int(const char*, struct stat64*)> original_lstat64{"lstat64"};
constinit Original<int(int, const char*, struct stat*, int)> original_fstatat{"fstatat"};
constinit Original<int(int, const char*, struct stat64*, int)> original_fstatat64{"fstatat64"};
constinit Original<int(int, const char*, int, unsigned, struct statx*)> original_statx{"statx"};
constinit Original<int(const char*, int)> original_access{"access"};
constinit Original<int(int, const char*, int, int)> original_faccessat{"faccessat"};
constinit Original<char*(const char*, char*)> original_realpath{"realpath"};

constexpr unsigned kMajor = 231;  // The kernel's for nodes of this kind,
constexpr unsigned kMinor = 192;  // and where it starts to count.

mode_t mode_of(const SystemFile& file) noexcept {
  if (file.kind == Kind::node) return S_IFCHR | 0666;
  return file.kind == Kind::directory ? S_IFDIR | 0755 : S_IFREG | 0444;
}

template <class Structure>
int describe(const SystemFile& file, Structure* info) noexcept {
  std::memset(info, 0, sizeof *info);
  info->st_mode = mode_of(file);
  info->st_nlink = 1;
  info->st_blksize = 4096;
  info->st_size = file.kind == Kind::attribute ? 4096 : 0;  // As sysfs says of all of them.
  if (file.kind == Kind::node) info->st_rdev = makedev(kMajor, kMinor + file.device);
  return 0;
}

int describe(const SystemFile& file, unsigned mask, struct statx* info) noexcept {
  struct stat plain;
  describe(file, &plain);
  std::memset(info, 0, sizeof *info);
  info->stx_mask = mask & STATX_BASIC_STATS;
  info->stx_mode = static_cast<std::uint16_t>(plain.st_mode);
  info->stx_nlink = 1;
  info->stx_blksize = 4096;
  info->stx_size = static_cast<std::uint64_t>(plain.st_size);
  info->stx_rdev_major = major(plain.st_rdev);
  info->stx_rdev_minor = minor(plain.st_rdev);
  return 0;
}

int fail(int os_error) noexcept {
  errno = os_error;
  return -1;
}

int check_access(const SystemFile& file, int mode) noexcept {
  const bool may_write = file.kind == Kind::node;
  const bool may_run = file.kind == Kind::directory;
  const bool denied = ((mode & W_OK) != 0 && !may_write) || ((mode & X_OK) != 0 && !may_run);
  return denied ? fail(EACCES) : 0;
}

/// A descriptor that reads as the attribute does. The node is not one to talk to: it opens, as a
/// program that asks "may I?" expects.
int open_file(const SystemFile& file, int flags) noexcept {
  if (file.kind == Kind::directory) return fail(EACCES);
  if (file.kind == Kind::node) return original_open("/dev/null", flags & ~(O_CREAT | O_EXCL), 0);
  if ((flags & O_ACCMODE) != O_RDONLY) return fail(EACCES);
  const int fd = memfd_create("verbatim", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);
  if (fd < 0) return -1;
  if (write(fd, file.text, file.length) != static_cast<ssize_t>(file.length) ||
      lseek(fd, 0, SEEK_SET) != 0) {
    close(fd);
    return fail(EIO);
  }
  return fd;
}

FILE* open_stream(const SystemFile& file, const char* mode) noexcept {
  const bool reads = mode[0] == 'r' && std::strchr(mode, '+') == nullptr;
  if (file.kind == Kind::attribute && !reads) {
    errno = EACCES;
    return nullptr;
  }
  const int fd = open_file(file, (reads ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  return fd < 0 ? nullptr : fdopen(fd, mode);
}

/// Only these calls have a mode behind the flags.
mode_t mode_argument(int flags, va_list arguments) noexcept {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

/// Before main(): the dynamic linker's lock may be held by a thread that a fork leaves behind, and
/// then a child could not look anything up any more.
[[gnu::constructor]] void find_originals() noexcept {
  original_open.find();
  original_open64.find();
  original_openat.find();
  original_openat64.find();
  original_fopen.find();
  original_fopen64.find();
  original_stat.find();
  original_stat64.find();
  original_lstat.find();
  original_lstat64.find();
  original_fstatat.find();
  original_fstatat64.find();
  original_statx.find();
  original_access.find();
  original_faccessat.find();
  original_realpath.find();
}

}  // namespace
}  // namespace verbatim::preload

using namespace verbatim::preload;

VERBATIM_EXPORT int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  SystemFile file;
  return find_system_file(path, file) ? open_file(file, flags) : original_open(path, flags, mode);
}

VERBATIM_EXPORT int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  SystemFile file;
  return find_system_file(path, file) ? open_file(file, flags) : original_open64(path, flags, mode);
}

VERBATIM_EXPORT int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  SystemFile file;
  return find_system_file(path, file) ? open_file(file, flags)
                                      : original_openat(directory, path, flags, mode);
}

VERBATIM_EXPORT int openat64(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  SystemFile file;
  return find_system_file(path, file) ? open_file(file, flags)
                                      : original_openat64(directory, path, flags, mode);
}

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the C library's names

// What open() and openat() become in programs that are compiled with _FORTIFY_SOURCE.
VERBATIM_EXPORT int __open_2(const char* path, int flags) { return open(path, flags); }
VERBATIM_EXPORT int __open64_2(const char* path, int flags) { return open64(path, flags); }
VERBATIM_EXPORT int __openat_2(int directory, const char* path, int flags) {
  return openat(directory, path, flags);
}
VERBATIM_EXPORT int __openat64_2(int directory, const char* path, int flags) {
  return openat64(directory, path, flags);
}

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

VERBATIM_EXPORT FILE* fopen(const char* path, const char* mode) {
  SystemFile file;
  return find_system_file(path, file) ? open_stream(file, mode) : original_fopen(path, mode);
}

VERBATIM_EXPORT FILE* fopen64(const char* path, const char* mode) {
  SystemFile file;
  return find_system_file(path, file) ? open_stream(file, mode) : original_fopen64(path, mode);
}

VERBATIM_EXPORT int stat(const char* path, struct stat* info) noexcept {
  SystemFile file;
  return find_system_file(path, file) ? describe(file, info) : original_stat(path, info);
}

VERBATIM_EXPORT int stat64(const char* path, struct stat64* info) noexcept {
  SystemFile file;
  return find_system_file(path, file) ? describe(file, info) : original_stat64(path, info);
}

VERBATIM_EXPORT int lstat(const char* path, struct stat* info) noexcept {
  SystemFile file;
  return find_system_file(path, file) ? describe(file, info) : original_lstat(path, info);
}

VERBATIM_EXPORT int lstat64(const char* path, struct stat64* info) noexcept {
  SystemFile file;
  return find_system_file(path, file) ? describe(file, info) : original_lstat64(path, info);
}

VERBATIM_EXPORT int fstatat(int directory, const char* path, struct stat* info,
                            int flags) noexcept {
  SystemFile file;
  return find_system_file(path, file) ? describe(file, info)
                                      : original_fstatat(directory, path, info, flags);
}

VERBATIM_EXPORT int fstatat64(int directory, const char* path, struct stat64* info,
                              int flags) noexcept {
  SystemFile file;
  return find_system_file(path, file) ? describe(file, info)
                                      : original_fstatat64(directory, path, info, flags);
}

VERBATIM_EXPORT int statx(int directory, const char* path, int flags, unsigned mask,
                          struct statx* info) noexcept {
  SystemFile file;
  return find_system_file(path, file) ? describe(file, mask, info)
                                      : original_statx(directory, path, flags, mask, info);
}

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the C library's names

// What stat() and lstat() were in programs that were linked before glibc 2.33. The version is that
// of the structure, of which there is one.
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

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

VERBATIM_EXPORT int access(const char* path, int mode) noexcept {
  SystemFile file;
  return find_system_file(path, file) ? check_access(file, mode) : original_access(path, mode);
}

VERBATIM_EXPORT int faccessat(int directory, const char* path, int mode, int flags) noexcept {
  SystemFile file;
  return find_system_file(path, file) ? check_access(file, mode)
                                      : original_faccessat(directory, path, mode, flags);
}

VERBATIM_EXPORT char* realpath(const char* path, char* resolved) noexcept {
  SystemFile file;
  if (!find_system_file(path, file)) return original_realpath(path, resolved);
  if (resolved == nullptr) return strdup(path);
  return std::strcpy(resolved, path);  // Shorter than PATH_MAX, or it would not be one of ours.
}
