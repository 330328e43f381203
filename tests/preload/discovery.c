// SPDX-License-Identifier: MIT OR Apache-2.0
// Looks for devices like programs that do not use verbs: lists directories, queries and reads their
// entries, and enters them.
#define _GNU_SOURCE  // statx, O_PATH
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

#define CLASS "/sys/class/infiniband"
#define DEVICE CLASS "/soft0"
#define PORT DEVICE "/ports/1"

// How often the name is in the directory.
static int count_in(DIR* directory, const char* name) {
  int count = 0;
  if (directory == NULL) return -1;
  for (const struct dirent* entry; (entry = readdir(directory)) != NULL;)
    if (strcmp(entry->d_name, name) == 0) ++count;
  return count;
}

static bool has_once(const char* path, const char* name) {
  DIR* const directory = opendir(path);
  const int count = count_in(directory, name);
  return directory != NULL && closedir(directory) == 0 && count == 1;
}

static void check_classes(void) {
  CHECK("the class of devices", has_once(CLASS, "soft0"));
  CHECK("has itself", has_once(CLASS, ".") && has_once(CLASS, ".."));
  CHECK("the class of verbs", has_once("/sys/class/infiniband_verbs", "uverbs-soft0"));
  CHECK("the nodes", has_once("/dev/infiniband", "uverbs-soft0"));
  CHECK("written otherwise", has_once("/sys//class/./infiniband/", "soft0"));
  CHECK("from two slashes", has_once("//sys/class/infiniband", "soft0"));
  CHECK("from a dot", has_once("/./sys/class/infiniband", "soft0") &&
                          access("/.//dev/infiniband/uverbs-soft0", R_OK | W_OK) == 0);
  CHECK("from below", has_once(PORT "/../../..", "soft0"));
  struct stat info;
  CHECK("is a directory", stat(CLASS, &info) == 0 && S_ISDIR(info.st_mode));
  CHECK("may be listed", access(CLASS, R_OK | X_OK) == 0);
  errno = 0;
  CHECK("cannot be written to", access(CLASS, W_OK) == -1 && errno == EACCES);
  CHECK("by effective rights", eaccess(CLASS, R_OK | X_OK) == 0);
  CHECK_MINUS("not written to either", eaccess(CLASS, W_OK), EACCES);
  CHECK("under its other name", euidaccess(CLASS, R_OK | X_OK) == 0);
  CHECK_MINUS("nor there", euidaccess(CLASS, W_OK), EACCES);
  char text[16], resolved[PATH_MAX];
  CHECK_MINUS("is no link", readlink(DEVICE, text, sizeof text), EINVAL);
  CHECK("realpath", realpath(CLASS "/./soft0/../soft0//ports/", resolved) != NULL &&
                        strcmp(resolved, DEVICE "/ports") == 0);
  char* const allocated = realpath(PORT, NULL);
  CHECK("realpath allocates", allocated != NULL && strcmp(allocated, PORT) == 0);
  free(allocated);
}

// Everything below a directory. What a listing says about an entry must match the entry itself.
static int walk(const char* path, int* files) {
  DIR* const directory = opendir(path);
  int wrong = directory == NULL;
  for (const struct dirent* entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
    char below[PATH_MAX], text[256] = "";
    struct stat info, same;
    struct statx more;
    if (entry->d_name[0] == '.') continue;
    snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
    wrong += lstat(below, &info) != 0 || stat(below, &same) != 0 || info.st_ino != same.st_ino;
    wrong += info.st_ino != entry->d_ino || entry->d_ino == 0 || access(below, R_OK) != 0;
    wrong += statx(AT_FDCWD, below, 0, STATX_BASIC_STATS, &more) != 0 ||
             more.stx_ino != info.st_ino || more.stx_mode != info.st_mode;
    wrong += (entry->d_type == DT_DIR) != S_ISDIR(info.st_mode);
    ++*files;
    if (entry->d_type == DT_DIR) {
      wrong += walk(below, files);
      continue;
    }
    const int fd = open(below, O_RDONLY);
    const ssize_t length = read(fd, text, sizeof text);
    wrong += length < 2 || text[length - 1] != '\n';
    close(fd);
  }
  if (directory != NULL) closedir(directory);
  return wrong;
}

static void check_device(void) {
  static const char* const directories[] = {
      DEVICE,       DEVICE "/ports", PORT, PORT "/gids", PORT "/gid_attrs", PORT "/gid_attrs/types",
      PORT "/pkeys"};
  for (size_t i = 0; i < sizeof directories / sizeof directories[0]; ++i) {
    const int fd = open(directories[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat by_path, by_descriptor;
    CHECK(directories[i], stat(directories[i], &by_path) == 0 && S_ISDIR(by_path.st_mode) &&
                              fstat(fd, &by_descriptor) == 0 &&
                              by_path.st_ino == by_descriptor.st_ino &&
                              by_path.st_dev == by_descriptor.st_dev);
    close(fd);
  }
  int files = 0;
  CHECK("everything below a device", walk(DEVICE, &files) == 0 && files > 25);
  CHECK_NULL("a file is not listed", opendir(PORT "/state"), ENOTDIR);
  CHECK_MINUS("nor opened as a directory", open(PORT "/state", O_DIRECTORY), ENOTDIR);
  CHECK_NULL("what is not there", opendir(DEVICE "/nothing"), ENOENT);
  CHECK_NULL("a device that is not there", opendir(CLASS "/soft77"), ENOENT);
  CHECK_MINUS("a directory is not written to", open(PORT, O_WRONLY), EISDIR);
}

static int is_number(const struct dirent* entry) {
  return entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
}

static void check_streams(void) {
  DIR* const directory = opendir(PORT);
  REQUIRE("opens", directory != NULL);
  CHECK("is read", count_in(directory, "state") == 1 && readdir(directory) == NULL);
  rewinddir(directory);
  CHECK("is read again", count_in(directory, "state") == 1);
  rewinddir(directory);
  for (int i = 0; i < 4; ++i) readdir(directory);
  const long here = telldir(directory);
  char name[256];
  snprintf(name, sizeof name, "%s", readdir(directory)->d_name);
  count_in(directory, "");
  seekdir(directory, here);
  CHECK("is read from a place", strcmp(readdir(directory)->d_name, name) == 0);
  rewinddir(directory);
  struct dirent copy, *result = NULL;
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // But programs use it.
  CHECK("readdir_r", readdir_r(directory, &copy, &result) == 0 && result == &copy);
  const int fd = dirfd(directory);
  struct stat info;
  CHECK("dirfd, and from there", fstatat(fd, "gids/0", &info, 0) == 0 && S_ISREG(info.st_mode));
  CHECK("may be read from there", faccessat(fd, "lid", R_OK, 0) == 0);
  CHECK_MINUS("what is not there, from there", openat(fd, "nothing", O_RDONLY), ENOENT);
  CHECK("the kernel's, from there", fstatat(fd, "../../../../../../proc/self", &info, 0) == 0);
  CHECK("an absolute path, from there", fstatat(fd, "/proc/self", &info, 0) == 0);
  CHECK_CODE("closes", closedir(directory), 0);

  const int opened = open(DEVICE, O_RDONLY | O_DIRECTORY);
  const int below = openat(opened, "ports/1", O_RDONLY | O_DIRECTORY);
  DIR* const given = fdopendir(dup(below));
  CHECK("fdopendir", count_in(given, "gids") == 1 && closedir(given) == 0);
  close(below);
  close(opened);

  struct dirent** list = NULL;
  const int count = scandir(PORT "/gids", &list, is_number, alphasort);
  CHECK("scandir",
        count == 2 && strcmp(list[0]->d_name, "0") == 0 && strcmp(list[1]->d_name, "1") == 0);
  for (int i = 0; i < count; ++i) free(list[i]);
  free(list);

  DIR* many[1000];
  int open_now = 0;
  while (open_now < 1000 && (many[open_now] = opendir(CLASS)) != NULL) ++open_now;
  CHECK("many, and an end to it", open_now >= 32 && (open_now == 1000 || errno == EMFILE));
  while (open_now > 0) closedir(many[--open_now]);
  CHECK("and again", has_once(CLASS, "soft0"));
}

static bool says(const char* command, const char* wanted) {
  char text[256] = "";
  FILE* const child = popen(command, "r");
  const size_t length = fread(text, 1, sizeof text - 1, child);
  text[length] = '\0';
  return pclose(child) == 0 && strcmp(text, wanted) == 0;
}

static void check_going_there(void) {
  char here[PATH_MAX], small[8];
  const int before = open(".", O_RDONLY | O_DIRECTORY);
  REQUIRE("chdir", chdir(DEVICE) == 0);
  CHECK("getcwd", getcwd(here, sizeof here) != NULL && strcmp(here, DEVICE) == 0);
  CHECK_NULL("getcwd without room", getcwd(small, sizeof small), ERANGE);
  FILE* const file = fopen("ports/1/state", "r");
  CHECK("a file from there", file != NULL && fclose(file) == 0);
  CHECK("listed from there", has_once(".", "ports") && has_once("ports/1", "state"));
  // Other programs start there.
  CHECK("a child reads", says("cat ports/1/state", "4: ACTIVE\n"));
  CHECK("a child lists", says("cd ports && echo *", "1\n"));
  CHECK("a child goes on",
        says("cd ports/1/gids && pwd -P && cd ../.. && pwd -P", PORT "/gids\n" DEVICE "/ports\n"));
  CHECK("chdir from there", chdir("..") == 0 && has_once(".", "soft0"));
  CHECK("out of it",
        chdir("..") == 0 && getcwd(here, sizeof here) != NULL && strcmp(here, "/sys/class") == 0);
  CHECK_MINUS("not into a file", chdir(PORT "/state"), ENOTDIR);
  CHECK("fchdir", fchdir(before) == 0 && access(DEVICE, F_OK) == 0);
  const int device = open(DEVICE, O_PATH | O_DIRECTORY);
  CHECK("fchdir into it", fchdir(device) == 0 && access("ports/1/lid", R_OK) == 0);
  CHECK("and back", fchdir(before) == 0 && access("ports/1/lid", R_OK) != 0);
  close(device);
  close(before);
}

// With `ulimit -f 0`. A write to any file would end the child, so its status has to say all.
static void check_limited(void) {
  const pid_t child = fork();
  if (child == 0) {
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_FSIZE, &none) != 0) _exit(1);
    if (open(PORT "/state", O_RDONLY) != -1 || errno != EFBIG) _exit(2);
    if (fopen(PORT "/state", "r") != NULL || errno != EFBIG) _exit(3);
    _exit(has_once(PORT, "state") ? 0 : 4);
  }
  int status = -1;
  CHECK("a limit of file sizes", waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
  check_classes();
  check_device();
  check_streams();
  check_going_there();
  check_limited();
  CHECK("other directories", has_once("/proc/self", "status") && !has_once("/proc/self", "soft0"));
  return failures != 0;
}
