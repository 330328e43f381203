// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a client that is not admitted gets neither endpoint nor private data, and gets a refusal;
//       unix sockets know the user of their peer.
// Method: hooks that refuse, throw, and ask for proof; everything that a refused client receives;
//         processes of another user, if the test may create one.
// Covers: channel/handshake.cpp, channel/unix_socket.cpp
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "conformance/meeting_fixture.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Admitted = Result<std::unique_ptr<Authenticator>>;

class AdmissionTest : public MeetingTest {
 protected:
  [[nodiscard]] Listener listen(ListenOptions options, std::string_view address = "127.0.0.1:0") {
    options.on_dropped = dropped.note();
    options.handshake_timeout = kPatience;  // It must not be what ends a handshake.
    return require(Listener::open(domain, address, std::move(options)));
  }
  /// A dial that the listener does not accept. Returns the error.
  [[nodiscard]] Error refused_dial(const Listener& listener, const DialOptions& options = {}) {
    const std::size_t before = dropped.count();
    auto dialled = dialling(listener, options);
    serve_until(listener, [&] { return dropped.count() > before; });
    const auto result = dialled.get();
    return result ? Error{} : result.error();
  }
  Dropped dropped;
};

TEST_F(AdmissionTest, HookSeesWhoCameAndLetsItIn) {
  std::vector<std::string> seen;
  ListenOptions options{.admit = [&](const Peer& peer) -> Admitted {
    seen.push_back(peer.address);
    EXPECT_TRUE(peer.private_data.empty());
    return nullptr;
  }};
  const Listener listener = listen(options);
  auto [here, there] = meet_at(listener, {.private_data = bytes_of("x")});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0], here.peer.address);
  exchange(there.channel, here.channel);
}

TEST_F(AdmissionTest, HookThatRefusesShowsNothing) {
  ListenOptions options{.admit = [](const Peer&) -> Admitted {
                          return std::unexpected(Error{.code = Errc::permission_denied});
                        },
                        .private_data = bytes_of("our secret name")};
  const Listener listener = listen(options);
  const Error told = refused_dial(listener);
  EXPECT_EQ(told, Errc::permission_denied) << to_string(told);
  EXPECT_STREQ(told.field, "refused by the peer");
  EXPECT_EQ(told.text_view(), "admit");
  EXPECT_EQ(dropped.cause(0), Errc::permission_denied);
  EXPECT_STREQ(dropped.cause(0).operation, "accept");
  // The only thing on the wire is a refusal.
  const Stranger stranger{listener.port()};
  stranger.say(kGreeting);
  serve_until(listener, [&] { return dropped.count() > 1; });
  EXPECT_EQ(stranger.hear_all(), (std::string{"VBF1\x04\0\x06\0\x01"
                                              "admit",
                                              14}));
}

TEST_F(AdmissionTest, HookThatThrowsRefuses) {
  int calls = 0;
  ListenOptions options{.admit = [&](const Peer&) -> Admitted {
    if (++calls == 1) throw std::runtime_error{"the database is gone"};
    if (calls == 2) throw 7;
    return nullptr;
  }};
  const Listener listener = listen(options);
  EXPECT_EQ(refused_dial(listener), Errc::permission_denied);
  EXPECT_EQ(dropped.cause(0).text_view(), "the database is gone");
  EXPECT_EQ(refused_dial(listener), Errc::permission_denied);
  EXPECT_EQ(dropped.cause(1).text_view(), "an exception");
  expect_good_client(listener);
}

TEST_F(AdmissionTest, DiallerMayRefuseToo) {
  const Listener listener = listen({.private_data = bytes_of("x")});
  const DialOptions options{.admit = [&](const Peer& peer) -> Admitted {
    EXPECT_EQ(peer.address, listener.address());
    return std::unexpected(Error{.code = Errc::permission_denied, .field = "not there"});
  }};
  const Error refused = refused_dial(listener, options);
  EXPECT_EQ(refused, Errc::permission_denied);
  EXPECT_STREQ(refused.field, "not there");
  EXPECT_STREQ(refused.operation, "dial");
  EXPECT_EQ(dropped.cause(0).text_view(), "not there");
}

/// A toy: each side sends a word and expects the same word. The word also scrambles the records.
class Password : public Authenticator {
 public:
  explicit Password(std::string word, int rounds = 2) : word_(std::move(word)), rounds_(rounds) {}
  Result<Answer> step(std::span<const std::byte> heard) override {
    if (++round_ == 1) return Answer{.message = bytes_of(word_)};
    if (round_ == 2 && !std::ranges::equal(heard, bytes_of(word_)))
      return std::unexpected(Error{.code = Errc::permission_denied, .field = "password"});
    return Answer{.message = {}, .satisfied = round_ >= rounds_};
  }
  Result<std::vector<std::byte>> seal(std::span<const std::byte> record) override {
    std::vector<std::byte> sealed = turned(record);
    sealed.resize(sealed.size() + 17, std::byte{0x5a});
    return sealed;
  }
  Result<std::vector<std::byte>> open(std::span<const std::byte> sealed) override {
    if (sealed.size() < 17 || sealed.back() != std::byte{0x5a})
      return std::unexpected(Error{.code = Errc::permission_denied, .field = "seal"});
    return turned(sealed.first(sealed.size() - 17));
  }

 private:
  [[nodiscard]] static std::vector<std::byte> turned(std::span<const std::byte> record) {
    std::vector<std::byte> result{record.begin(), record.end()};
    for (std::byte& each : result) each ^= std::byte{0xff};
    return result;
  }
  std::string word_;
  int rounds_;
  int round_ = 0;
};

AdmitPeer password(std::string word, int rounds = 2) {
  return [=](const Peer&) -> Admitted { return std::make_unique<Password>(word, rounds); };
}

TEST_F(AdmissionTest, ProofOnBothSidesLetsThemMeet) {
  const std::vector<std::byte> most(kMaxPrivateDataBytes, std::byte{7});
  const Listener listener = listen({.admit = password("swordfish"), .private_data = most});
  // Also if one side expects more rounds than the other.
  for (const int rounds : {2, 3, Authenticator::kMaxRounds}) {
    auto [here, there] =
        meet_at(listener, {.admit = password("swordfish", rounds), .private_data = most});
    EXPECT_EQ(here.peer.private_data, most);
    EXPECT_EQ(there.peer.private_data, most);
    exchange(there.channel, here.channel);
  }
}

TEST_F(AdmissionTest, WrongProofIsRefusedOnBothSides) {
  const Listener listener = listen({.admit = password("swordfish")});
  const Error told = refused_dial(listener, {.admit = password("haddock")});
  EXPECT_EQ(told, Errc::permission_denied) << to_string(told);
  EXPECT_EQ(dropped.cause(0), Errc::permission_denied) << to_string(dropped.cause(0));
}

TEST_F(AdmissionTest, ProofOnOneSideOnlyIsIncompatible) {
  const Listener strict = listen({.admit = password("swordfish")});
  EXPECT_EQ(refused_dial(strict), Errc::incompatible);
  EXPECT_STREQ(dropped.cause(0).field, "no authentication by the peer");
  const Listener open = listen({});
  EXPECT_EQ(refused_dial(open, {.admit = password("swordfish")}), Errc::incompatible);
  EXPECT_STREQ(dropped.cause(1).field, "the peer asks for proof");
}

TEST_F(AdmissionTest, ProofThatNeverEndsIsCutOff) {
  const Listener listener = listen({.admit = password("x", 1000)});
  const Error told = refused_dial(listener, {.admit = password("x", 1000)});
  EXPECT_NE(told.code, Errc::timed_out) << to_string(told);
  EXPECT_EQ(dropped.count(), 1u);
}

/// A separate folder for the socket files.
class UnixSocketTest : public AdmissionTest {
 protected:
  UnixSocketTest() {
    char name[] = "/tmp/verbatim-test-XXXXXX";
    if (mkdtemp(name) == nullptr) give_up("mkdtemp", std::source_location::current());
    folder = name;
  }
  ~UnixSocketTest() override { std::filesystem::remove_all(folder); }
  [[nodiscard]] std::string address() const { return "unix:" + (folder / "server").string(); }
  std::filesystem::path folder;
};

TEST_F(UnixSocketTest, TwoMeetAndKnowEachOther) {
  {
    const Listener listener = listen({}, address());
    EXPECT_EQ(listener.address(), address());
    EXPECT_EQ(listener.port(), 0);
    EXPECT_EQ(std::filesystem::status(folder / "server").permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    auto [here, there] = meet_at(listener);
    exchange(there.channel, here.channel);
    for (const Peer& peer : {here.peer, there.peer}) {
      EXPECT_EQ(peer.user, geteuid());
      EXPECT_EQ(peer.process, getpid());
      EXPECT_EQ(peer.address, address());
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "server"));
}

TEST_F(UnixSocketTest, AbstractNameNeedsNoFile) {
  const std::string name = "unix:@verbatim-test-" + std::to_string(getpid());
  const Listener listener = listen({}, name);
  EXPECT_EQ(listener.address(), name);
  expect_good_client(listener);
  EXPECT_TRUE(fails_with(Listener::open(domain, name), Errc::busy));
}

TEST_F(UnixSocketTest, DialWaitsForTheListener) {
  auto dialled = std::async(std::launch::async,
                            [&] { return dial(domain, address(), {.deadline = kPatience}); });
  ASSERT_EQ(dialled.wait_for(20ms), std::future_status::timeout);
  const Listener listener = listen({}, address());
  EXPECT_TRUE(succeeds(listener.accept(kPatience)));
  EXPECT_TRUE(succeeds(dialled.get()));
}

TEST_F(UnixSocketTest, BadPathsAreRefusedByName) {
  const std::string long_path = "unix:/" + std::string(107, 'x');
  for (const auto& refused :
       {Listener::open(domain, long_path).error(), dial(domain, long_path).error()}) {
    EXPECT_EQ(refused, Errc::limit_exceeded);
    EXPECT_STREQ(refused.field, "length of the unix path");
    EXPECT_EQ(refused.value, 108u);
    EXPECT_EQ(refused.limit, 107u);
  }
  EXPECT_TRUE(fails_with(Listener::open(domain, "unix:"), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(Listener::open(domain, "unix:@"), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(Listener::open(domain, "unix:" + (folder / "no" / "where").string()),
                         Errc::not_found));
}

TEST_F(UnixSocketTest, FileThatIsThereIsBusyAndLeftAlone) {
  const Listener listener = listen({}, address());
  const auto second = Listener::open(domain, address());
  ASSERT_TRUE(fails_with(second, Errc::busy));
  EXPECT_STREQ(second.error().field, "bind");
  expect_good_client(listener);
  std::ofstream{folder / "file"} << "precious";
  EXPECT_TRUE(fails_with(Listener::open(domain, "unix:" + (folder / "file").string()), Errc::busy));
  EXPECT_EQ(std::filesystem::file_size(folder / "file"), 8u);
}

TEST_F(UnixSocketTest, FileOfADeadProcessIsReplaced) {
  const pid_t child = fork();
  if (child == 0) {  // Like a listener that was killed.
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    (folder / "server").string().copy(name.sun_path, sizeof name.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
    _exit(bound && ::listen(fd, 1) == 0 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(std::filesystem::exists(folder / "server"));
  expect_good_client(listen({}, address()));
}

TEST_F(UnixSocketTest, ChildThatEndsLeavesTheFile) {
  std::optional<Listener> listener{listen({}, address())};
  const pid_t child = fork();
  if (child == 0) {
    listener.reset();
    _exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_good_client(*listener);
}

TEST_F(UnixSocketTest, PeerOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  constexpr uid_t kNobody = 65534;
  const std::string name = "unix:@verbatim-user-" + std::to_string(getpid());
  for (const bool same_user : {true, false}) {
    const Listener listener = listen({.same_user_only = same_user}, name);
    const std::size_t before = dropped.count();
    const pid_t child = fork();
    if (child == 0) {
      sockaddr_un to{};
      to.sun_family = AF_UNIX;
      name.substr(5).copy(to.sun_path, sizeof to.sun_path);
      to.sun_path[0] = '\0';
      const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() - 5);
      if (setuid(kNobody) != 0) _exit(2);
      const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&to), size) != 0) _exit(3);
      if (::send(fd, kGreeting.data(), kGreeting.size(), MSG_NOSIGNAL) < 0 && errno != EPIPE)
        _exit(4);
      char answer[8]{};
      static_cast<void>(recv(fd, answer, sizeof answer, MSG_WAITALL));
      _exit(answer[4] == (same_user ? 4 : 1) ? 0 : 5);  // A refusal, or a greeting.
    }
    serve_until(listener, [&] { return dropped.count() > before; });
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0) << same_user;
    const Error why = dropped.cause(before);
    EXPECT_EQ(dropped.peer(before).user, kNobody);
    if (same_user) {
      EXPECT_EQ(why, Errc::permission_denied);
      EXPECT_STREQ(why.field, "user of the peer");
      EXPECT_EQ(why.value, kNobody);
    } else {
      EXPECT_EQ(why, Errc::closed);  // It was let in, and left.
    }
  }
}

}  // namespace
}  // namespace verbatim::test
