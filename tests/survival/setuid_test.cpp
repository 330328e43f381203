// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a user who starts a program that runs with another user's rights cannot choose, by its
//       environment, which code it loads and whose memory it trusts.
// Method: a copy of this program, setuid to another user and started by nobody, with variables that
//         name a library and a directory. The same copy without the bit obeys, which shows that the
//         library is valid.
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>

#include "support/device_under_test.hpp"
#include "survival/contained.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"
#include "verbatim/verbs/device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr uid_t kOwner = 12345;
constexpr int kMarked = 42;   // The library was loaded.
constexpr int kPlanted = 43;  // The directory was used.
constexpr int kNotSecure = 44;

/// Arguments: whether the kernel must have noticed the gained rights; a directory.
int play_privileged(const std::vector<std::string>& role) {
  if (role.at(1) == "secure" && getauxval(AT_SECURE) == 0) return kNotSecure;
  static_cast<void>(list_devices());  // Loads libibverbs.
  const auto context = open_device({.name = "soft0"});
  return context && std::filesystem::exists(role.at(2) + "/p0-0") ? kPlanted : 0;
}
const Role kPrivileged{"privileged", &play_privileged};

class SetuidProgram : public testing::Test {
 protected:
  SetuidProgram() {
    std::filesystem::remove_all(place);  // A killed process may have left it whose id was the same.
    std::filesystem::create_directories(planted);
    std::filesystem::copy_file("/proc/self/exe", program);
    std::filesystem::copy_file(VERBATIM_MARKER_LIBRARY, library);
    is_good = chmod(place.c_str(), 0755) == 0 && chmod(library.c_str(), 0755) == 0 &&
              chmod(planted.c_str(), 0700) == 0;
  }
  ~SetuidProgram() override { std::filesystem::remove_all(place); }

  /// Runs it as nobody, with this mode and both variables. Returns how it ended.
  [[nodiscard]] int run(mode_t mode, uid_t trusts, const char* how, const char* variable,
                        const std::string& value) {
    // In this order, because changing the owner clears the bit.
    if (chown(program.c_str(), kOwner, kOwner) != 0 || chmod(program.c_str(), mode) != 0 ||
        chown(planted.c_str(), trusts, trusts) != 0)
      return -1;
    return status_within(start_contained([&] {
                           setenv(variable, value.c_str(), 1);
                           if (setgid(kNobody) != 0 || setuid(kNobody) != 0) std::_Exit(1);
                           execl(program.c_str(), program.c_str(), "--role", "privileged", how,
                                 planted.c_str(), nullptr);
                           std::_Exit(127);
                         }),
                         20s);
  }

  std::string place = "/tmp/verbatim-setuid-" + std::to_string(getpid());
  std::string program = place + "/program";
  std::string library = place + "/library.so";
  std::string planted = place + "/planted";
  bool is_good = false;
};

TEST_F(SetuidProgram, TakesNeitherCodeNorMemoryFromItsEnvironment) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a program to another user";
  struct statvfs info{};
  if (statvfs(place.c_str(), &info) != 0 || (info.f_flag & (ST_NOSUID | ST_NOEXEC)) != 0)
    GTEST_SKIP() << "programs in /tmp cannot be setuid";
  ASSERT_TRUE(is_good);
  struct Row {
    const char* variable;
    const std::string& value;
    int obeyed;
  };
  for (const Row& row : {Row{"VERBATIM_LIBIBVERBS", library, kMarked},
                         Row{"VERBATIM_SOFT_DIR", planted, kPlanted}}) {
    SCOPED_TRACE(row.variable);
    const int plain = run(0755, kNobody, "plain", row.variable, row.value);
    ASSERT_TRUE(WIFEXITED(plain) && WEXITSTATUS(plain) == row.obeyed) << describe_end(plain);
    const int raised = run(04755, kOwner, "secure", row.variable, row.value);
    if (WIFEXITED(raised) && WEXITSTATUS(raised) == kNotSecure)
      GTEST_SKIP() << "the kernel ignores the setuid bit here";
    EXPECT_EQ(raised, 0) << describe_end(raised)
                         << (row.obeyed == WEXITSTATUS(raised) ? ": it obeyed who started it" : "");
  }
}

}  // namespace
}  // namespace verbatim::test
