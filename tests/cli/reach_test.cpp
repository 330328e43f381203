// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a doctor checks everything that the other one says.
// Method: greetings made by hand, and one end of a socket pair.
#include "reach.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "verbatim/channel/detail/file_descriptor.hpp"
#include "verbatim/soft/inspect.hpp"
#include "with_port.hpp"

namespace verbatim::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A JSON value compares with anything, so that Result's own comparison is ambiguous.
template <class T>
Errc code_of(const Result<T>& result) {
  return result ? Errc::would_block : result.error().code;
}

DeviceReport device_named(const std::string& name) {
  PortReport port{.port = {.number = 1, .state = PortState::active}};
  for (std::uint32_t index : {0u, 3u}) {
    GidReport gid{.entry = {.index = index, .type = GidType::roce_v2}};
    gid.entry.gid.bytes[15] = static_cast<std::uint8_t>(index + 1);
    port.gids.push_back(gid);
  }
  return {.name = name, .reliable_connection = true, .ports = {port}};
}

TEST(Reach, EveryAddressOfAnActivePortIsACandidate) {
  const auto candidates = usable_candidates({.devices = {device_named("rxe0")}});
  ASSERT_EQ(candidates.size(), 2u);
  EXPECT_EQ(to_string(candidates[1]), "rxe0 port 1 GID 3 (RoCEv2 ::4)");
}

TEST(Reach, WhatDoesNotWorkIsNoCandidate) {
  auto down = device_named("down");
  down.ports[0].port.state = PortState::down;
  auto broken = device_named("broken");
  broken.failure = Error{.code = Errc::permission_denied};
  auto datagrams = device_named("datagrams");
  datagrams.reliable_connection = false;
  auto bare = device_named("bare");  // Ethernet without an address.
  bare.ports[0].gids.clear();
  EXPECT_THAT(usable_candidates({.devices = {down, broken, datagrams, bare}}), IsEmpty());
  bare.ports[0].port.link_layer = LinkLayer::infiniband;
  const auto candidates = usable_candidates({.devices = {bare}});
  ASSERT_EQ(candidates.size(), 1u);
  EXPECT_EQ(to_string(candidates[0]), "bare port 1");
}

TEST(Reach, GreetingsComeAcross) {
  auto candidates = usable_candidates({.devices = {device_named("rxe0")}});
  candidates.push_back({.device = "mlx5_0", .port = 2});
  const auto read = read_greeting(json::parse(greeting(candidates).dump()));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, candidates);
}

TEST(Reach, ForeignGreetingsAreMalformed) {
  const json good = greeting({{.device = "rxe0", .port = 1, .gid_index = 0, .gid = "x"}});
  ASSERT_TRUE(read_greeting(good));
  std::vector<json> bad(8, good);
  bad[0].erase("verbatim");
  bad[1]["verbatim"] = 7;
  bad[2]["version"] = 99;
  bad[3]["candidates"] = "all";
  bad[4]["candidates"][0]["port"] = 256;
  bad[5]["candidates"][0]["port"] = -1;
  bad[6]["candidates"][0].erase("device");
  bad[7]["candidates"] = std::vector<json>(257, good["candidates"][0]);
  for (const json& each : bad) EXPECT_EQ(code_of(read_greeting(each)), Errc::malformed) << each;
  EXPECT_EQ(code_of(read_greeting(json::object())), Errc::malformed);
}

TEST(Reach, NamesOfThePeerCannotMoveTheCursor) {
  const auto read = read_greeting(greeting({{.device = "\x1b[2Jrxe0", .port = 1}}));
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)[0].device, "?[2Jrxe0");
}

TEST(Reach, APortIsAddedWhereThereIsNone) {
  EXPECT_EQ(with_port("storage-7", kDoctorPort), "storage-7:7790");
  EXPECT_EQ(with_port("storage-7:99", kDoctorPort), "storage-7:99");
  EXPECT_EQ(with_port("10.0.0.1", kDoctorPort), "10.0.0.1:7790");
  EXPECT_EQ(with_port("::1", kDoctorPort), "[::1]:7790");
  EXPECT_EQ(with_port("[::1]", kDoctorPort), "[::1]:7790");
  EXPECT_EQ(with_port("[::1]:99", kDoctorPort), "[::1]:99");
}

/// How many queue pairs on the software device this process has.
std::size_t own_queue_pairs() {
  const auto all = soft::inspect();
  if (!all) return 0;
  const auto own = std::ranges::find(all->processes, getpid(), &soft::InspectedProcess::pid);
  return own == all->processes.end() ? 0 : own->queue_pairs.size();
}

TEST(Reach, TheServersQueuePairLivesUntilTheClientIsDone) {
  const detail::FileDescriptor listener{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener.get(), where, size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), where, &size), 0);
  const std::vector<Candidate> candidates{{.device = "soft0", .port = 1, .gid_index = 0}};
  const ReachOptions options{.pair_timeout = 60s, .connect_timeout = 60s};
  unsigned served = 0;
  std::jthread server{[&] {
    // What opens a descriptor must not block: the client could not open its own.
    pollfd coming{.fd = listener.get(), .events = POLLIN, .revents = 0};
    poll(&coming, 1, 60'000);
    auto client = detail::PrivateDescriptor::opened_by(
        [&] { return accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
    const auto outcome = serve(std::move(client), candidates, options);
    if (outcome) served = outcome->worked;
  }};
  std::vector<std::size_t> alive;
  const auto peer = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  reach(peer, candidates, options, [&](const Finding& finding) {
    EXPECT_EQ(finding.severity, Severity::ok) << finding.value << finding.why;
    alive.push_back(own_queue_pairs());
  });
  server.join();
  EXPECT_EQ(served, 1u);
  ASSERT_EQ(alive.size(), 2u);  // The pair, and the sum.
  EXPECT_EQ(alive[0], 1u);      // The client's is gone, the server's is not.
  EXPECT_EQ(own_queue_pairs(), 0u);
}

/// Our end of a connection; the other is a server's or a reader's.
class StrangerTest : public testing::Test {
 protected:
  StrangerTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    ours = detail::FileDescriptor{ends[0]};
    theirs = detail::PrivateDescriptor::opened_by([&] { return ends[1]; });
  }
  void say(std::string_view text) const {
    EXPECT_EQ(write(ours.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void hang_up() { ours = detail::FileDescriptor{}; }

  detail::FileDescriptor ours;
  detail::PrivateDescriptor theirs;
  ReachOptions options{.pair_timeout = 100ms, .connect_timeout = 100ms};
};

TEST_F(StrangerTest, WhoTalksSomethingElseIsDropped) {
  say("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_EQ(code_of(serve(std::move(theirs), {}, options)), Errc::malformed);
}

TEST_F(StrangerTest, WhoSaysNothingIsDropped) {
  EXPECT_EQ(code_of(serve(std::move(theirs), {}, options)), Errc::timed_out);
}

TEST_F(StrangerTest, WhoHangsUpIsDropped) {
  say("{\"verbatim\":");
  shutdown(ours.get(), SHUT_WR);
  EXPECT_EQ(code_of(serve(std::move(theirs), {}, options)), Errc::closed);
}

TEST_F(StrangerTest, WhoAsksForWhatIsNotThereIsDropped) {
  say(greeting({}).dump() + "\n{\"candidate\": 5, \"endpoint\": {}}\n");
  const auto served = serve(std::move(theirs), {{.device = "soft0"}}, options);
  ASSERT_EQ(code_of(served), Errc::malformed);
  EXPECT_STREQ(served.error().field, "candidate");
}

TEST_F(StrangerTest, WhoSendsAWrongEndpointIsDropped) {
  say(greeting({}).dump() + "\n{\"candidate\": 0, \"endpoint\": {\"lid\": \"high\"}}\n");
  EXPECT_EQ(code_of(serve(std::move(theirs), {{.device = "soft0"}}, options)), Errc::malformed);
}

TEST_F(StrangerTest, WhoWantsNothingIsServed) {
  say(greeting({}).dump() + "\n");
  shutdown(ours.get(), SHUT_WR);
  const auto served = serve(std::move(theirs), {}, options);
  ASSERT_TRUE(served);
  EXPECT_EQ(served->tested, 0u);
}

}  // namespace
}  // namespace verbatim::cli
