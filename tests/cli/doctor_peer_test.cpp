// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two doctors find out which pairs of addresses work, and strangers disturb nobody.
// Method: the program twice, on the software device.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <memory>

#include "support/fake_root.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"
#include "verbatim_program.hpp"

namespace verbatim::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// For pairs that work: either end may have to wait for a processor.
const std::string kLongS = "60";

class DoctorPeerTest : public testing::Test {
 protected:
  DoctorPeerTest() {
    root.make_directory("soft");
    std::filesystem::permissions(root.path() + "/soft", std::filesystem::perms::owner_all);
  }
  /// Of programs that share the software device.
  [[nodiscard]] std::vector<std::string> variables(const std::string& more = "") const {
    std::vector<std::string> all{"VERBATIM_SOFT_DIR=" + root.path() + "/soft"};
    if (!more.empty()) all.push_back(more);
    return all;
  }
  /// Where it listens.
  std::string start(std::vector<std::string> words, const std::vector<std::string>& with) {
    words.insert(words.begin(), {VERBATIM_PROGRAM, "doctor", "--listen", "--port", "0"});
    server = std::make_unique<Command>(words, with);
    EXPECT_TRUE(server->prints("listening at "));
    const std::string& text = server->output();
    const std::size_t from = text.find("127.0.0.1:");
    EXPECT_NE(from, std::string::npos) << text;
    return text.substr(from, text.find(';', from) - from);
  }

  FakeRoot root;
  std::unique_ptr<Command> server;
};

TEST_F(DoctorPeerTest, FindsThatAPairWorks) {
  const std::string address = start({"--clients", "1", "--timeout", kLongS}, variables());
  const auto outcome = run_verbatim({"doctor", address, "--timeout", kLongS}, variables());
  EXPECT_EQ(outcome.status, 0) << outcome.output << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("): works\n"));
  EXPECT_THAT(outcome.output, HasSubstr("reaching " + address + ": 1 of 1 pairs work"));
  EXPECT_THAT(outcome.errors, IsEmpty());  // Progress is for terminals only.
  const auto served = server->finish();
  EXPECT_EQ(served.status, 0) << served.errors;
  EXPECT_THAT(served.output, HasSubstr(": 1 of 1 pairs work"));
}

TEST_F(DoctorPeerTest, TestsEachPair) {
  const std::string two = "VERBATIM_SOFT_DEVICES=2";
  const std::string address = start({"--clients", "1", "--timeout", kLongS}, variables(two));
  const auto outcome =
      run_verbatim({"doctor", address, "--json", "--timeout", kLongS}, variables(two));
  EXPECT_EQ(outcome.status, 0) << outcome.output << outcome.errors;
  const auto report = json_of(outcome);
  ASSERT_TRUE(report.is_object());
  std::vector<std::string> pairs;
  for (const auto& each : report["findings"])
    if (each["id"].get<std::string>().starts_with("pair.")) {
      pairs.push_back(each["id"]);
      EXPECT_EQ(each["value"], "works") << each;
    }
  EXPECT_THAT(pairs,
              testing::ElementsAre("pair.soft0.1.0--soft0.1.0", "pair.soft0.1.0--soft1.1.0",
                                   "pair.soft1.1.0--soft0.1.0", "pair.soft1.1.0--soft1.1.0"));
  EXPECT_EQ(report["findings"].back()["value"], "4 of 4 pairs work");
}

TEST_F(DoctorPeerTest, SaysWhyAPairCannotWork) {
  // Two directories are two fabrics.
  const std::string address = start({}, {});
  const auto outcome = run_verbatim({"doctor", address}, variables());
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("cannot be connected"));
  EXPECT_THAT(outcome.output, HasSubstr("give both the same VERBATIM_SOFT_DIR"));
  EXPECT_THAT(outcome.output, HasSubstr("0 of 1 pairs work"));
}

TEST_F(DoctorPeerTest, SaysThatAPairFails) {
  const std::string address = start({"--timeout", "0.5"}, variables());
  // The device says that the message got no answer, long before this end would give up.
  const auto outcome = run_verbatim({"doctor", "--timeout", kLongS, address},
                                    variables("VERBATIM_SOFT_FAULTS=fail@1=12"));
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("): fails\n"));
  EXPECT_THAT(outcome.output, HasSubstr("transport retry counter exceeded"));
}

TEST_F(DoctorPeerTest, StrangersAreDroppedAndTheServerGoesOn) {
  const std::string address = start({"--clients", "1", "--timeout", kLongS}, variables());
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1)));
  sockaddr_in where{.sin_family = AF_INET,
                    .sin_port = htons(port),
                    .sin_addr = {htonl(INADDR_LOOPBACK)},
                    .sin_zero = {}};
  const detail::FileDescriptor silent{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const detail::FileDescriptor loud{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  for (const int fd : {silent.get(), loud.get()})
    ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  const std::string request = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_EQ(send(loud.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  ASSERT_TRUE(server->prints("dropped: read_record: malformed"));
  // The silent one is still there, and nobody waits for it.
  const auto outcome = run_verbatim({"doctor", address, "--timeout", kLongS}, variables());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(server->finish().status, 0);
}

TEST_F(DoctorPeerTest, EndsOnRequestAndLeavesNothing) {
  static_cast<void>(start({}, variables()));
  server->signal(SIGTERM);
  EXPECT_EQ(server->finish().status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(root.path() + "/soft"));
}

TEST_F(DoctorPeerTest, EventsAreJsonLines) {
  server = std::make_unique<Command>(
      std::vector<std::string>{VERBATIM_PROGRAM, "doctor", "--listen", "--port", "0", "--json"},
      variables());
  ASSERT_TRUE(server->prints("listening"));
  const auto event = nlohmann::json::parse(server->output(), nullptr, false);
  ASSERT_TRUE(event.is_object()) << server->output();
  EXPECT_EQ(event["event"], "listening");
  EXPECT_THAT(event["address"].get<std::string>(), testing::StartsWith("127.0.0.1:"));
}

TEST_F(DoctorPeerTest, ListensWhereTheUserSays) {
  server = std::make_unique<Command>(
      std::vector<std::string>{VERBATIM_PROGRAM, "doctor", "--listen", "0.0.0.0", "--port", "0"},
      variables());
  EXPECT_TRUE(server->prints("listening at 0.0.0.0:"));
}

TEST_F(DoctorPeerTest, NobodyThereIsAnError) {
  // Port 1 of this machine: nobody listens there.
  const auto outcome = run_verbatim({"doctor", "127.0.0.1:1"}, variables());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("reaching 127.0.0.1:1: "));
  EXPECT_THAT(outcome.output, HasSubstr("verbatim doctor --listen"));
}

TEST_F(DoctorPeerTest, AnAddressInUseIsSaid) {
  const std::string address = start({}, variables());
  const auto second = run_verbatim(
      {"doctor", "--listen", "--port", address.substr(address.find(':') + 1)}, variables());
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.errors, HasSubstr("ss -ltnp"));
}

class DoctorMistakes : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(DoctorMistakes, AreOneLineAndStatus2) {
  auto words = GetParam();
  words.insert(words.begin(), "doctor");
  expect_mistake(run_verbatim(words), "verbatim doctor --help");
}

using Words = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(Doctor, DoctorMistakes,
                         testing::Values(Words{"--port", "7000"}, Words{"--clients", "1"},
                                         Words{"peer", "--listen", "127.0.0.1"},
                                         Words{"--listen", "127.0.0.1", "--port", "70000"},
                                         Words{"peer", "--timeout", "0"}, Words{"one", "two"}));

}  // namespace
}  // namespace verbatim::test
