// SPDX-License-Identifier: MIT OR Apache-2.0
// The C library's functions that list or enter a directory, for the directories that contain our
// files. A listing shows the kernel's entries first, and then ours. Calls for all other directories
// go straight to the C library.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "base/uncancelled.hpp"
#include "preload/original.hpp"
#include "preload/place.hpp"

namespace verbatim::preload {
namespace {

using std::string_view;
using Kind = SystemFile::Kind;

constinit Original<DIR*(const char*)> original_opendir{"opendir"};
constinit Original<DIR*(int)> original_fdopendir{"fdopendir"};
constinit Original<dirent*(DIR*)> original_readdir{"readdir"};
constinit Original<dirent64*(DIR*)> original_readdir64{"readdir64"};
constinit Original<int(DIR*, dirent*, dirent**)> original_readdir_r{"readdir_r"};
constinit Original<int(DIR*, dirent64*, dirent64**)> original_readdir64_r{"readdir64_r"};
constinit Original<int(DIR*)> original_closedir{"closedir"};
constinit Original<void(DIR*)> original_rewinddir{"rewinddir"};
constinit Original<long(DIR*)> original_telldir{"telldir"};
constinit Original<void(DIR*, long)> original_seekdir{"seekdir"};
constinit Original<int(DIR*)> original_dirfd{"dirfd"};
using Filter = int(const dirent*);
using Compare = int(const dirent**, const dirent**);
constinit Original<int(const char*, dirent***, Filter*, Compare*)> original_scandir{"scandir"};
constinit Original<int(const char*)> original_chdir{"chdir"};
constinit Original<int(int)> original_fchdir{"fchdir"};
constinit Original<char*(char*, std::size_t)> original_getcwd{"getcwd"};

// Two names for one structure, on systems where long has 64 bits.
static_assert(sizeof(dirent) == sizeof(dirent64) &&
              offsetof(dirent, d_name) == offsetof(dirent64, d_name));

/// An open directory of ours. All of them are in one array, so the address of a DIR shows whether
/// it is ours or the C library's. Like a DIR, a stream belongs to the thread that reads it.
struct Stream {
  std::atomic<bool> used;
  int fd;     // The program's; -1: none.
  DIR* real;  // The kernel's directory of the same name.
  bool real_is_over;
  long position;    // How many entries were returned,
  std::size_t own;  // and how many of them were ours.
  std::size_t size;
  char path[128];
  dirent entry;

  [[nodiscard]] string_view name() const noexcept { return {path, size}; }
};
constinit Stream streams[64]{};

Stream* stream_of(DIR* directory) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(directory);
  const auto begin = reinterpret_cast<std::uintptr_t>(streams);
  return at - begin < sizeof streams ? reinterpret_cast<Stream*>(directory) : nullptr;
}

/// Takes over the descriptor, if there is one.
DIR* open_stream(string_view path, int fd) noexcept {
  if (path.size() > sizeof Stream::path) {
    errno = ENAMETOOLONG;
    return nullptr;
  }
  for (Stream& each : streams) {
    if (each.used.exchange(true)) continue;
    each.fd = fd;
    each.real_is_over = false;
    each.position = 0;
    each.own = 0;
    each.size = path.copy(each.path, sizeof each.path);
    const int errno_before = errno;
    SystemFile file;
    char name[sizeof each.path + 1] = {};
    path.copy(name, path.size());
    each.real = find_system_file(path, file) && file.is_class ? original_opendir(name) : nullptr;
    errno = errno_before;
    return reinterpret_cast<DIR*>(&each);
  }
  errno = EMFILE;
  return nullptr;
}

unsigned char type_of(Kind kind) noexcept {
  if (kind == Kind::node) return DT_CHR;
  return kind == Kind::directory ? DT_DIR : DT_REG;
}

dirent* give(Stream& stream, string_view name, std::uint64_t number, unsigned char type) noexcept {
  dirent& entry = stream.entry;
  entry.d_ino = number;
  entry.d_off = ++stream.position;
  entry.d_reclen = sizeof entry;
  entry.d_type = type;
  entry.d_name[name.copy(entry.d_name, sizeof entry.d_name - 1)] = '\0';
  return &entry;
}

/// Returns "." and "..", then the kernel's entries, then ours.
dirent* read_stream(Stream& stream) noexcept {
  if (stream.position < 2) {
    SystemFile file;
    (void)find_system_file(stream.name(), file);
    return give(stream, string_view{".."}.substr(stream.position == 0 ? 1 : 0), file.number,
                DT_DIR);
  }
  while (stream.real != nullptr && !stream.real_is_over) {
    const dirent* const entry = original_readdir(stream.real);
    stream.real_is_over = entry == nullptr;
    if (entry == nullptr) break;
    const string_view name{entry->d_name};
    if (name != "." && name != "..") return give(stream, name, entry->d_ino, entry->d_type);
  }
  SystemEntry entry;
  if (!list_system_directory(stream.name(), stream.own, entry)) return nullptr;
  ++stream.own;
  return give(stream, entry.name, entry.number, type_of(entry.kind));
}

void rewind_stream(Stream& stream) noexcept {
  stream.position = 0;
  stream.own = 0;
  stream.real_is_over = false;
  if (stream.real != nullptr) original_rewinddir(stream.real);
}

int copy_entry(const dirent* from, dirent* to, dirent** result) noexcept {
  if (from != nullptr) *to = *from;
  *result = from != nullptr ? to : nullptr;
  return 0;
}

/// Appends a copy of the entry to the list, which has `count` entries.
bool add(dirent*** list, std::size_t count, const dirent& entry) noexcept {
  auto** const longer =
      static_cast<dirent**>(std::realloc(static_cast<void*>(*list), (count + 1) * sizeof(dirent*)));
  if (longer == nullptr) return false;
  *list = longer;
  longer[count] = static_cast<dirent*>(std::malloc(sizeof entry));
  if (longer[count] == nullptr) return false;
  *longer[count] = entry;
  return true;
}

int scan(DIR* directory, dirent*** found, Filter* filter, Compare* compare) {
  if (directory == nullptr) return -1;
  dirent** list = nullptr;
  std::size_t count = 0;
  bool failed = false;
  while (const dirent* const entry = failed ? nullptr : readdir(directory)) {
    if (filter != nullptr && filter(entry) == 0) continue;
    failed = !add(&list, count, *entry);
    if (!failed) ++count;
  }
  closedir(directory);
  if (failed) {
    for (dirent* const each : std::span{list, count}) std::free(each);
    std::free(static_cast<void*>(list));
    errno = ENOMEM;
    return -1;
  }
  // scandir() promises that the function compares pointers to entries.
  if (compare != nullptr && count > 0)
    std::qsort(static_cast<void*>(list), count, sizeof *list,
               reinterpret_cast<int (*)(const void*, const void*)>(compare));
  *found = list;
  return static_cast<int>(count);
}

[[gnu::constructor]] void find_directory_originals() noexcept {
  original_opendir.find();
  original_fdopendir.find();
  original_readdir.find();
  original_readdir64.find();
  original_readdir_r.find();
  original_readdir64_r.find();
  original_closedir.find();
  original_rewinddir.find();
  original_telldir.find();
  original_seekdir.find();
  original_dirfd.find();
  original_scandir.find();
  original_chdir.find();
  original_fchdir.find();
  original_getcwd.find();
}

}  // namespace
}  // namespace verbatim::preload

using namespace verbatim::preload;

VERBATIM_EXPORT DIR* opendir(const char* path) {
  const Place place{path};
  if (!place.is_ours()) return original_opendir(place.path());
  if (place.file().kind == Kind::directory) return open_stream(place.name(), -1);
  errno = ENOTDIR;
  return nullptr;
}

VERBATIM_EXPORT DIR* fdopendir(int fd) {
  const Place place{fd, "."};
  return place.is_ours() ? open_stream(place.name(), fd) : original_fdopendir(fd);
}

VERBATIM_EXPORT dirent* readdir(DIR* directory) {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? read_stream(*stream) : original_readdir(directory);
}

VERBATIM_EXPORT dirent64* readdir64(DIR* directory) {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? reinterpret_cast<dirent64*>(read_stream(*stream))
                           : original_readdir64(directory);
}

VERBATIM_EXPORT int readdir_r(DIR* directory, dirent* entry, dirent** result) {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? copy_entry(read_stream(*stream), entry, result)
                           : original_readdir_r(directory, entry, result);
}

VERBATIM_EXPORT int readdir64_r(DIR* directory, dirent64* entry, dirent64** result) {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? copy_entry(read_stream(*stream), reinterpret_cast<dirent*>(entry),
                                        reinterpret_cast<dirent**>(result))
                           : original_readdir64_r(directory, entry, result);
}

VERBATIM_EXPORT int closedir(DIR* directory) {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return original_closedir(directory);
  if (stream->real != nullptr) original_closedir(stream->real);
  if (stream->fd >= 0) close(stream->fd);
  stream->used.store(false);
  return 0;
}

VERBATIM_EXPORT void rewinddir(DIR* directory) noexcept {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? rewind_stream(*stream) : original_rewinddir(directory);
}

VERBATIM_EXPORT long telldir(DIR* directory) noexcept {
  Stream* const stream = stream_of(directory);
  return stream != nullptr ? stream->position : original_telldir(directory);
}

VERBATIM_EXPORT void seekdir(DIR* directory, long position) noexcept {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return original_seekdir(directory, position);
  rewind_stream(*stream);
  while (stream->position < position && read_stream(*stream) != nullptr) {
  }
}

VERBATIM_EXPORT int dirfd(DIR* directory) noexcept {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return original_dirfd(directory);
  if (stream->fd < 0) stream->fd = open_directory(stream->name(), O_RDONLY | O_CLOEXEC);
  return stream->fd;
}

VERBATIM_EXPORT int scandir(const char* path, dirent*** list, Filter* filter, Compare* compare) {
  const Place place{path};
  return place.is_ours() ? scan(opendir(path), list, filter, compare)
                         : original_scandir(place.path(), list, filter, compare);
}

VERBATIM_EXPORT int scandir64(const char* path, dirent64*** list, int (*filter)(const dirent64*),
                              int (*compare)(const dirent64**, const dirent64**)) {
  return scandir(path, reinterpret_cast<dirent***>(list), reinterpret_cast<Filter*>(filter),
                 reinterpret_cast<Compare*>(compare));
}

VERBATIM_EXPORT int chdir(const char* path) noexcept {
  const verbatim::Uncancelled here;
  const Place place{path};
  int failed = -1;
  if (!place.is_ours()) {
    failed = original_chdir(place.path());
  } else if (place.file().kind != Kind::directory) {
    errno = ENOTDIR;
  } else if (const int fd = open_directory(place.name(), O_RDONLY | O_CLOEXEC); fd >= 0) {
    failed = original_fchdir(fd);
    close(fd);
  }
  forget_working_directory();
  return failed;
}

VERBATIM_EXPORT int fchdir(int fd) noexcept {
  const int failed = original_fchdir(fd);
  forget_working_directory();
  return failed;
}

VERBATIM_EXPORT char* getcwd(char* buffer, std::size_t size) noexcept {
  const Place place{"."};
  if (!place.is_ours()) return original_getcwd(buffer, size);
  const string_view name = place.name();
  if (buffer == nullptr && size == 0) return strndup(name.data(), name.size());
  if (size <= name.size()) {
    errno = size == 0 ? EINVAL : ERANGE;
    return nullptr;
  }
  if (buffer == nullptr) buffer = static_cast<char*>(std::malloc(size));
  if (buffer != nullptr) buffer[name.copy(buffer, name.size())] = '\0';
  return buffer;
}

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): with _FORTIFY_SOURCE
VERBATIM_EXPORT char* __getcwd_chk(char* buffer, std::size_t size, std::size_t room) noexcept {
  if (size > room) std::abort();
  return getcwd(buffer, size);
}
