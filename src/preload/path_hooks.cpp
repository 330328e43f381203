// SPDX-License-Identifier: MIT OR Apache-2.0
// The C library's functions that open a path or query it, for our files. Calls for all other files
// go straight to the C library, whose errors the caller sees. The stat() family is in
// stat_hooks.cpp.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/uncancelled.hpp"
#include "preload/original.hpp"
#include "preload/place.hpp"
#include "soft/shared/segment.hpp"

namespace verbatim::preload {
namespace {

using Kind = SystemFile::Kind;

constinit Original<int(const char*, int, mode_t)> original_open{"open"};
constinit Original<int(const char*, int, mode_t)> original_open64{"open64"};
constinit Original<int(int, const char*, int, mode_t)> original_openat{"openat"};
constinit Original<int(int, const char*, int, mode_t)> original_openat64{"openat64"};
constinit Original<FILE*(const char*, const char*)> original_fopen{"fopen"};
constinit Original<FILE*(const char*, const char*)> original_fopen64{"fopen64"};
constinit Original<int(const char*, int)> original_access{"access"};
constinit Original<int(const char*, int)> original_eaccess{"eaccess"};
constinit Original<int(const char*, int)> original_euidaccess{"euidaccess"};
constinit Original<int(int, const char*, int, int)> original_faccessat{"faccessat"};
constinit Original<char*(const char*, char*)> original_realpath{"realpath"};
constinit Original<ssize_t(const char*, char*, std::size_t)> original_readlink{"readlink"};
constinit Original<ssize_t(int, const char*, char*, std::size_t)> original_readlinkat{"readlinkat"};

using GetAttribute = ssize_t(const char*, const char*, void*, std::size_t);
constinit Original<GetAttribute> original_getxattr{"getxattr"};
constinit Original<GetAttribute> original_lgetxattr{"lgetxattr"};

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

/// Opens a descriptor from which the attribute can be read. The device node only opens, as a
/// program that tests its rights expects; nothing answers on it.
int open_place(const Place& place, int flags) noexcept {
  const Uncancelled here;
  const SystemFile& file = place.file();
  if (file.kind == Kind::directory) return open_directory(place.name(), flags);
  if ((flags & O_DIRECTORY) != 0) return fail(ENOTDIR);
  if (file.kind == Kind::node) return original_open("/dev/null", flags & ~(O_CREAT | O_EXCL), 0);
  if ((flags & O_ACCMODE) != O_RDONLY) return fail(EACCES);
  const int fd = memfd_create("verbatim", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);
  if (fd < 0) return -1;
  // Beyond the limit of file sizes, write() would end the program.
  if (const int failure = engine::set_file_size(fd, file.length)) {
    close(fd);
    return fail(failure);
  }
  if (write(fd, file.text, file.length) != static_cast<ssize_t>(file.length) ||
      lseek(fd, 0, SEEK_SET) != 0) {
    close(fd);
    return fail(EIO);
  }
  return fd;
}

FILE* open_stream(const Place& place, const char* mode) noexcept {
  const bool reads = mode[0] == 'r' && std::strchr(mode, '+') == nullptr;
  const int fd = open_place(place, (reads ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  return fd < 0 ? nullptr : fdopen(fd, mode);
}

/// Only calls with these flags have a mode argument.
mode_t mode_argument(int flags, va_list arguments) noexcept {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

/// Runs before main(). A thread that a fork leaves behind may hold the dynamic linker's lock, and
/// then the child could not look up anything.
[[gnu::constructor]] void find_path_originals() noexcept {
  original_open.find();
  original_open64.find();
  original_openat.find();
  original_openat64.find();
  original_fopen.find();
  original_fopen64.find();
  original_access.find();
  original_eaccess.find();
  original_euidaccess.find();
  original_faccessat.find();
  original_realpath.find();
  original_readlink.find();
  original_readlinkat.find();
  original_getxattr.find();
  original_lgetxattr.find();
}

}  // namespace
}  // namespace verbatim::preload

using namespace verbatim::preload;

VERBATIM_EXPORT int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  const Place place{path};
  return place.is_ours() ? open_place(place, flags) : original_open(place.path(), flags, mode);
}

VERBATIM_EXPORT int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  const Place place{path};
  return place.is_ours() ? open_place(place, flags) : original_open64(place.path(), flags, mode);
}

VERBATIM_EXPORT int openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  const Place place{directory, path};
  return place.is_ours() ? open_place(place, flags)
                         : original_openat(place.directory(), place.path(), flags, mode);
}

VERBATIM_EXPORT int openat64(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_argument(flags, arguments);
  va_end(arguments);
  const Place place{directory, path};
  return place.is_ours() ? open_place(place, flags)
                         : original_openat64(place.directory(), place.path(), flags, mode);
}

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the C library's names

// The names of open() and openat() in programs that are compiled with _FORTIFY_SOURCE.
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
  const Place place{path};
  return place.is_ours() ? open_stream(place, mode) : original_fopen(place.path(), mode);
}

VERBATIM_EXPORT FILE* fopen64(const char* path, const char* mode) {
  const Place place{path};
  return place.is_ours() ? open_stream(place, mode) : original_fopen64(place.path(), mode);
}

VERBATIM_EXPORT int access(const char* path, int mode) noexcept {
  const Place place{path};
  return place.is_ours() ? check_access(place.file(), mode) : original_access(place.path(), mode);
}

VERBATIM_EXPORT int eaccess(const char* path, int mode) noexcept {
  const Place place{path};
  return place.is_ours() ? check_access(place.file(), mode) : original_eaccess(place.path(), mode);
}

VERBATIM_EXPORT int euidaccess(const char* path, int mode) noexcept {
  const Place place{path};
  return place.is_ours() ? check_access(place.file(), mode)
                         : original_euidaccess(place.path(), mode);
}

VERBATIM_EXPORT int faccessat(int directory, const char* path, int mode, int flags) noexcept {
  const Place place{directory, path};
  return place.is_ours() ? check_access(place.file(), mode)
                         : original_faccessat(place.directory(), place.path(), mode, flags);
}

VERBATIM_EXPORT char* realpath(const char* path, char* resolved) noexcept {
  const Place place{path};
  if (!place.is_ours()) return original_realpath(place.path(), resolved);
  if (resolved == nullptr) return strndup(place.name().data(), place.name().size());
  resolved[place.name().copy(resolved, PATH_MAX - 1)] = '\0';
  return resolved;
}

// None of our files is a link.
VERBATIM_EXPORT ssize_t readlink(const char* path, char* target, std::size_t size) noexcept {
  const Place place{path};
  return place.is_ours() ? fail(EINVAL) : original_readlink(place.path(), target, size);
}

VERBATIM_EXPORT ssize_t readlinkat(int directory, const char* path, char* target,
                                   std::size_t size) noexcept {
  const Place place{directory, path};
  return place.is_ours() ? fail(EINVAL)
                         : original_readlinkat(place.directory(), place.path(), target, size);
}

// None of our files has an access control list, which `ls -l` asks for.
VERBATIM_EXPORT ssize_t getxattr(const char* path, const char* name, void* value,
                                 std::size_t size) noexcept {
  const Place place{path};
  return place.is_ours() ? fail(EOPNOTSUPP) : original_getxattr(place.path(), name, value, size);
}

VERBATIM_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* value,
                                  std::size_t size) noexcept {
  const Place place{path};
  return place.is_ours() ? fail(EOPNOTSUPP) : original_lgetxattr(place.path(), name, value, size);
}

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the C library's names

// With _FORTIFY_SOURCE. Only the compiler knows the size of the buffer.
VERBATIM_EXPORT char* __realpath_chk(const char* path, char* resolved, std::size_t room) noexcept {
  if (room < PATH_MAX) std::abort();
  return realpath(path, resolved);
}
VERBATIM_EXPORT ssize_t __readlink_chk(const char* path, char* target, std::size_t size,
                                       std::size_t room) noexcept {
  if (size > room) std::abort();
  return readlink(path, target, size);
}
VERBATIM_EXPORT ssize_t __readlinkat_chk(int directory, const char* path, char* target,
                                         std::size_t size, std::size_t room) noexcept {
  if (size > room) std::abort();
  return readlinkat(directory, path, target, size);
}

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
