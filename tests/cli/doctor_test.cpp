// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever breaks a program, `verbatim doctor` names the cause, with the value and the
//       command that fixes it.
// Method: the program itself, on a machine that was broken in that way.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "support/fake_root.hpp"
#include "verbatim_program.hpp"

namespace verbatim::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// One finding of `doctor --json`; null if it is not there.
nlohmann::json finding(const Command::Outcome& outcome, const std::string& id) {
  const auto report = json_of(outcome);
  if (!report.is_object()) return nullptr;
  for (const auto& each : report["findings"])
    if (each["id"] == id) return each;
  return nullptr;
}

Command::Outcome examine(const std::vector<std::string>& variables = {}) {
  return run_verbatim({"doctor", "--json"}, variables);
}

void expect_error(const Command::Outcome& outcome, const std::string& id, const std::string& value,
                  const std::string& fix) {
  EXPECT_EQ(outcome.status, 1) << outcome.output << outcome.errors;
  const auto found = finding(outcome, id);
  ASSERT_TRUE(found.is_object()) << outcome.output;
  EXPECT_EQ(found["severity"], "error") << found;
  EXPECT_THAT(found["value"].get<std::string>(), HasSubstr(value));
  EXPECT_THAT(found["fix"].get<std::string>(), HasSubstr(fix));
}

/// A directory for soft0 in which nothing else happens.
class DoctorTest : public testing::Test {
 protected:
  DoctorTest() { root.make_directory("soft"); }
  [[nodiscard]] std::string directory() const { return root.path() + "/soft"; }
  [[nodiscard]] std::string variable() const { return "VERBATIM_SOFT_DIR=" + directory(); }
  void set_mode(unsigned mode) const {
    std::filesystem::permissions(directory(), static_cast<std::filesystem::perms>(mode));
  }
  FakeRoot root;
};

TEST_F(DoctorTest, FindsNothingOnAGoodMachine) {
  set_mode(0700);
  const auto outcome = run_verbatim({"doctor"}, {variable()});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.errors, IsEmpty());
  EXPECT_THAT(outcome.output, HasSubstr("ok       what open_device() takes: "));
  EXPECT_THAT(outcome.output, HasSubstr("\n0 errors, "));
  EXPECT_THAT(outcome.output, Not(HasSubstr("\x1b")));
}

TEST_F(DoctorTest, JsonHasEveryField) {
  set_mode(0700);
  const auto outcome = examine({variable()});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const auto report = json_of(outcome);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["good"], true);
  for (const auto& each : report["findings"])
    for (const char* field : {"id", "severity", "title", "value", "why", "fix"})
      EXPECT_TRUE(each[field].is_string()) << each;
}

TEST_F(DoctorTest, NamesAWrongDeviceName) {
  set_mode(0700);
  expect_error(examine({variable(), "VERBATIM_DEVICE=mlx5_9"}), "device", "VERBATIM_DEVICE=mlx5_9",
               "VERBATIM_DEVICE");
}

TEST_F(DoctorTest, NamesAPortThatIsNotActive) {
  set_mode(0700);
  for (const auto& [code, state] : {std::pair{"1", "DOWN"}, std::pair{"2", "INIT"}})
    expect_error(examine({variable(), kFakeLibrary, std::string{"FAKE_PORT_STATE="} + code}),
                 "port.null0.1", state, "sudo");
}

TEST_F(DoctorTest, NamesADirectoryThatIsOpenToOthers) {
  set_mode(0755);
  expect_error(examine({variable()}), "soft.directory", "mode 0755", "chmod 700 " + directory());
}

TEST_F(DoctorTest, NamesADirectoryOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  set_mode(0700);
  ASSERT_EQ(chown(directory().c_str(), 12345, 12345), 0);
  expect_error(examine({variable()}), "soft.directory", "uid 12345", "unset VERBATIM_SOFT_DIR");
}

TEST_F(DoctorTest, NamesADirectoryThatCannotBeMade) {
  expect_error(examine({variable() + "/none/here"}), "soft.directory", "/none is not there",
               "mkdir -p ");
}

TEST_F(DoctorTest, NamesAFullFileSystem) {
  if (mount("none", directory().c_str(), "tmpfs", 0, "size=64k,mode=700") != 0)
    GTEST_SKIP() << "cannot mount a small file system here";
  std::ofstream{directory() + "/ballast"} << std::string(64 << 10, 'x');
  const auto outcome = examine({variable()});
  EXPECT_EQ(umount(directory().c_str()), 0);
  expect_error(outcome, "soft.space", "0 bytes of 64 KiB free", "VERBATIM_SOFT_DIR");
  EXPECT_EQ(finding(outcome, "device")["severity"], "error");
}

TEST_F(DoctorTest, NamesATinyMemlock) {
  set_mode(0700);
  // A privileged user has no limit, so the program runs without that privilege.
  const std::string command =
      "ulimit -l 64; exec setpriv --bounding-set -ipc_lock --inh-caps "
      "-ipc_lock " VERBATIM_PROGRAM " doctor --json";
  const auto outcome = run_command({"sh", "-c", command}, {variable(), kFakeLibrary});
  if (outcome.status == 127 || outcome.output.empty())
    GTEST_SKIP() << "cannot give up CAP_IPC_LOCK here: " << outcome.errors;
  expect_error(outcome, "memlock", "64 KiB", "ulimit -l unlimited");
}

TEST_F(DoctorTest, NamesALibraryThatCannotBeLoaded) {
  set_mode(0700);
  expect_error(examine({variable(), "VERBATIM_LIBIBVERBS=/none/libibverbs.so.1"}), "libibverbs",
               "/none/libibverbs.so.1", "unset VERBATIM_LIBIBVERBS");
}

TEST_F(DoctorTest, NamesAWrongSetting) {
  set_mode(0700);
  expect_error(examine({variable(), "VERBATIM_SOFT_LINK=token-ring"}), "soft.settings",
               "VERBATIM_SOFT_LINK=token-ring", "unset VERBATIM_SOFT_LINK");
}

TEST_F(DoctorTest, SeesWhatAKilledProgramLeft) {
  set_mode(0700);
  Command program{{VERBATIM_PROGRAM, "ping", "--listen", "--port", "0", "--device", "soft0"},
                  {variable()}};
  ASSERT_TRUE(program.prints("listening"));
  program.signal(SIGKILL);
  static_cast<void>(program.finish());
  const auto outcome = examine({variable()});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(finding(outcome, "soft.leftovers")["value"].get<std::string>(),
              HasSubstr("0 processes use it; 1 that was killed left "));
  EXPECT_TRUE(std::filesystem::is_empty(directory()));  // As the finding says: looking removes it.
}

TEST_F(DoctorTest, RefusesAWrongFlag) {
  const auto outcome = run_verbatim({"doctor", "--verbose"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, IsEmpty());
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
}

}  // namespace
}  // namespace verbatim::test
