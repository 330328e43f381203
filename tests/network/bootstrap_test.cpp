// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process finds its identity in its environment, in a configuration, or from the process
//       that created all ranks; each wrong value is one error that names it, and no error shows a
//       secret.
// Method: the environment of this process, one variable at a time; ranks in threads.
// Covers: network/bootstrap.cpp, network/bootstrap_address.cpp, network/bootstrap_config.cpp
#include "verbatim/network/bootstrap.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "network/bootstrap_address.hpp"
#include "network/scoped_environment.hpp"
#include "support/named_error.hpp"
#include "support/require.hpp"
#include "verbatim/network/coordinator.hpp"
#include "verbatim/network/exchanger.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

const std::string kDigits = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

class EnvironmentBootstrap : public testing::Test {
 protected:
  EnvironmentBootstrap() {
    environment.set("VERBATIM_RANK", "2");
    environment.set("VERBATIM_WORLD", "5");
    environment.set("VERBATIM_COORDINATOR", "node-a:7000");
    environment.set("VERBATIM_SECRET", kDigits);
  }
  /// The identity with one variable changed.
  Result<Identity> with(const char* name, const std::string& value) {
    ScopedEnvironment inner;
    for (const auto& [other, usual] : {std::pair{"VERBATIM_RANK", "2"},
                                       {"VERBATIM_WORLD", "5"},
                                       {"VERBATIM_COORDINATOR", "node-a:7000"},
                                       {"VERBATIM_SECRET", kDigits.c_str()}})
      inner.set(other, usual);
    inner.set(name, value);
    return Bootstrap::environment();
  }
  ScopedEnvironment environment;
};

TEST_F(EnvironmentBootstrap, TellsWhoWeAre) {
  const auto identity = require(Bootstrap::environment());
  EXPECT_EQ(identity.rank, 2);
  EXPECT_EQ(identity.world, 5);
  EXPECT_EQ(identity.coordinator, "node-a:7000");
  EXPECT_EQ(identity.secret.value(), require(Secret::from_hex(kDigits)));
  EXPECT_EQ(identity.job, "verbatim");
  EXPECT_FALSE(identity.hosted);
  EXPECT_FALSE(identity.device);
  environment.set("VERBATIM_JOB", "tea");
  EXPECT_EQ(require(Bootstrap::environment()).job, "tea");
}

TEST_F(EnvironmentBootstrap, IsNotFoundOnlyIfNothingIsSet) {
  const ScopedEnvironment none;
  EXPECT_TRUE(fails_naming(Bootstrap::environment(), Errc::not_found, "VERBATIM_RANK"));
  for (const char* name : {"VERBATIM_RANK", "VERBATIM_WORLD", "VERBATIM_COORDINATOR",
                           "VERBATIM_SECRET", "VERBATIM_SECRET_FILE", "VERBATIM_JOB"}) {
    ScopedEnvironment one;
    one.set(name, "1");
    EXPECT_TRUE(fails_with(Bootstrap::environment(), Errc::invalid_argument)) << name;
  }
}

TEST_F(EnvironmentBootstrap, MissesEachVariableByName) {
  for (const char* name : {"VERBATIM_RANK", "VERBATIM_WORLD", "VERBATIM_COORDINATOR"}) {
    const std::string before = std::getenv(name);
    environment.unset(name);
    const auto result = Bootstrap::environment();
    EXPECT_TRUE(fails_naming(result, Errc::invalid_argument, name));
    EXPECT_EQ(result.error().text_view(), "not set");
    environment.set(name, "");
    EXPECT_EQ(Bootstrap::environment().error().text_view(), "empty");
    environment.set(name, before);
  }
}

TEST_F(EnvironmentBootstrap, RefusesWhatIsNoNumberAndShowsIt) {
  for (const char* name : {"VERBATIM_RANK", "VERBATIM_WORLD"})
    for (const char* text : {"two", "-1", "+1", " 1", "1 ", "1.0", "0x1", "4294967296"}) {
      const auto result = with(name, text);
      EXPECT_TRUE(fails_naming(result, Errc::invalid_argument, name)) << text;
      EXPECT_EQ(result.error().text_view(), text);
    }
}

TEST_F(EnvironmentBootstrap, RefusesARankBeyondTheWorld) {
  EXPECT_TRUE(fails_naming(with("VERBATIM_RANK", "5"), Errc::invalid_argument, "VERBATIM_RANK",
                           {.value = 5, .limit = 4}));
  EXPECT_TRUE(fails_naming(with("VERBATIM_WORLD", "0"), Errc::invalid_argument, "VERBATIM_WORLD"));
  EXPECT_TRUE(succeeds(with("VERBATIM_RANK", "4")));
}

TEST_F(EnvironmentBootstrap, RefusesACoordinatorThatIsNoAddress) {
  for (const char* text : {"node-a", "node-a:", ":7000", "node-a:0", "node-a:70000", "::1:7000",
                           "node-a:7000,", ",node-a:7000", "node-a:7000,node-b"}) {
    const auto result = with("VERBATIM_COORDINATOR", text);
    EXPECT_TRUE(fails_naming(result, Errc::invalid_argument, "VERBATIM_COORDINATOR")) << text;
  }
  for (const char* text : {"node-a:7000,node-b:7000", "[fe80::1]:7000", "10.0.0.1:1"})
    EXPECT_TRUE(succeeds(with("VERBATIM_COORDINATOR", text))) << text;
}

TEST_F(EnvironmentBootstrap, RefusesABadSecretAndDoesNotShowIt) {
  for (const std::string& digits : {kDigits.substr(1), kDigits + "0", std::string{"secret"},
                                    std::string{}, kDigits.substr(1) + "g"}) {
    const auto result = with("VERBATIM_SECRET", digits);
    EXPECT_TRUE(fails_naming(result, Errc::invalid_argument, "VERBATIM_SECRET"));
    EXPECT_EQ(result.error().text_view(), "not 64 hex digits");
  }
}

TEST_F(EnvironmentBootstrap, RefusesTwoSecrets) {
  const auto result = with("VERBATIM_SECRET_FILE", "/nowhere");
  EXPECT_TRUE(fails_naming(result, Errc::invalid_argument, "VERBATIM_SECRET"));
}

TEST_F(EnvironmentBootstrap, NeedsASecretBeyondLoopback) {
  environment.unset("VERBATIM_SECRET");
  for (const char* far : {"node-a:7000", "10.0.0.1:7000", "0.0.0.0:7000", "[fe80::1]:7000",
                          "127.0.0.1:7000,10.0.0.1:7000", "localhost.example.org:7000"}) {
    environment.set("VERBATIM_COORDINATOR", far);
    EXPECT_TRUE(fails_naming(Bootstrap::environment(), Errc::permission_denied, "secret")) << far;
  }
  for (const char* near : {"127.0.0.1:7000", "127.3.2.1:7000", "[::1]:7000", "localhost:7000",
                           "localhost:1,127.0.0.1:2"}) {
    environment.set("VERBATIM_COORDINATOR", near);
    EXPECT_TRUE(succeeds(Bootstrap::environment())) << near;
  }
}

TEST_F(EnvironmentBootstrap, ReadsASecretFromAFileThatOnlyItsOwnerMayRead) {
  std::string place = testing::TempDir() + "bootstrap-XXXXXX";
  ASSERT_NE(mkdtemp(place.data()), nullptr);
  const std::string path = place + "/secret";
  std::ofstream{path} << kDigits << '\n';
  environment.unset("VERBATIM_SECRET");
  environment.set("VERBATIM_SECRET_FILE", path);
  for (const mode_t mode : {0600u, 0400u}) {
    chmod(path.c_str(), mode);
    EXPECT_EQ(require(Bootstrap::environment()).secret.value(), require(Secret::from_hex(kDigits)));
  }
  for (const mode_t mode : {0640u, 0604u, 0620u, 0602u, 0644u}) {
    chmod(path.c_str(), mode);
    const auto result = Bootstrap::environment();
    EXPECT_TRUE(fails_with(result, Errc::permission_denied)) << std::oct << mode;
    EXPECT_EQ(result.error().value, mode);
    EXPECT_TRUE(std::string_view{result.error().field}.starts_with("VERBATIM_SECRET_FILE"));
  }
  chmod(path.c_str(), 0600);
  std::ofstream{path} << kDigits << "0\n";
  EXPECT_TRUE(
      fails_naming(Bootstrap::environment(), Errc::invalid_argument, "VERBATIM_SECRET_FILE"));
  std::filesystem::remove_all(place);
  EXPECT_TRUE(fails_naming(Bootstrap::environment(), Errc::not_found, "VERBATIM_SECRET_FILE"));
}

TEST(FindBootstrap, ListsWhatItLookedFor) {
  const ScopedEnvironment none;
  const auto result = Bootstrap::find(1s);
  EXPECT_TRUE(fails_with(result, Errc::not_found));
  for (const char* word : {"VERBATIM_RANK", "verbatim run", "PMIx", "mpirun", "srun"})
    EXPECT_NE(to_string(result.error()).find(word), std::string::npos) << word;
}

TEST(FindBootstrap, TakesTheEnvironmentFirstAndPassesOverNoMistakeInIt) {
  ScopedEnvironment environment;
  environment.set("VERBATIM_RANK", "0");
  EXPECT_TRUE(fails_naming(Bootstrap::find(1s), Errc::invalid_argument, "VERBATIM_WORLD"));
  environment.set("VERBATIM_WORLD", "1");
  environment.set("VERBATIM_COORDINATOR", "127.0.0.1:7000");
  environment.set("PMIX_NAMESPACE", "nobody");
  EXPECT_EQ(require(Bootstrap::find(1s)).coordinator, "127.0.0.1:7000");
}

/// Each rank sends the others its number, and ten times that.
void meet_all(const std::vector<Identity>& identities) {
  std::vector<std::thread> ranks;
  for (const Identity& identity : identities)
    ranks.emplace_back([&identity, world = identities.size()] {
      auto exchanger = Exchanger::join(identity, {});
      ASSERT_TRUE(succeeds(exchanger)) << identity.rank;
      const auto all = exchanger->exchange(std::uint64_t{10} * identity.rank);
      ASSERT_TRUE(succeeds(all)) << identity.rank;
      ASSERT_EQ(all->size(), world);
      for (std::size_t rank = 0; rank < world; ++rank) EXPECT_EQ((*all)[rank], 10 * rank);
      EXPECT_TRUE(succeeds(exchanger->leave(60s)));
    });
  for (std::thread& rank : ranks) rank.join();
}

TEST(InProcessBootstrap, RanksMeet) {
  const auto identities = require(Bootstrap::in_process(4));
  ASSERT_EQ(identities.size(), 4);
  for (Rank rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(identities[rank].rank, rank);
    EXPECT_EQ(identities[rank].world, 4);
    EXPECT_EQ(identities[rank].hosted, identities[0].hosted);
    EXPECT_TRUE(identities[rank].secret.has_value());
  }
  meet_all(identities);
}

TEST(InProcessBootstrap, RefusesNone) {
  EXPECT_TRUE(fails_naming(Bootstrap::in_process(0), Errc::invalid_argument, "world"));
}

class ConfigBootstrap : public testing::Test {
 protected:
  static NetworkConfig of(const std::string& host, std::uint16_t port = 7000) {
    RawNetworkConfig raw;
    raw.add_node({.hostname = host, .port = port, .ibdev = "mlx5_0", .rankid = 0});
    raw.add_node({.hostname = "node-b", .port = 7001, .ibdev = "mlx5_1", .rankid = 1});
    raw.add_node({.hostname = "node-c", .port = 7002, .ibdev = "", .rankid = 2});
    return require(raw.build());
  }
  /// The port of a coordinator that is gone; probably nobody takes it at once.
  static std::uint16_t free_port() { return require(Coordinator::open({.world = 1})).port(); }

  ScopedEnvironment environment;
  Secret secret = require(Secret::from_hex(kDigits));
};

TEST_F(ConfigBootstrap, OtherRanksDialRankZero) {
  const auto identity = require(Bootstrap::config(of("node-a"), 1, {.secret = secret}));
  EXPECT_EQ(identity.rank, 1);
  EXPECT_EQ(identity.world, 3);
  EXPECT_EQ(identity.coordinator, "node-a:7000");
  EXPECT_EQ(identity.device, "mlx5_1");
  EXPECT_EQ(identity.secret, secret);
  EXPECT_FALSE(identity.hosted);
  EXPECT_FALSE(require(Bootstrap::config(of("node-a"), 2, {.secret = secret})).device);
  EXPECT_EQ(require(Bootstrap::config(of("fe80::1"), 1, {.secret = secret})).coordinator,
            "[fe80::1]:7000");
}

TEST_F(ConfigBootstrap, RefusesWhatTheFileDoesNotHave) {
  EXPECT_TRUE(fails_naming(Bootstrap::config(of("node-a"), 3, {.secret = secret}),
                           Errc::invalid_argument, "rank", {.value = 3, .limit = 2}));
  EXPECT_TRUE(fails_naming(Bootstrap::config(of("node-a", 0), 1, {.secret = secret}),
                           Errc::invalid_argument, "port"));
  EXPECT_TRUE(fails_naming(Bootstrap::config(of(""), 1, {.secret = secret}), Errc::invalid_argument,
                           "hostname"));
}

TEST_F(ConfigBootstrap, NeedsASecretBeyondLoopback) {
  for (const Rank rank : {0u, 1u})
    EXPECT_TRUE(
        fails_naming(Bootstrap::config(of("node-a"), rank), Errc::permission_denied, "secret"));
  EXPECT_TRUE(succeeds(Bootstrap::config(of("127.0.0.1"), 1)));
  // It does not listen on a name of the machine itself here.
  EXPECT_TRUE(fails_with(Bootstrap::config(of("127.0.0.1"), 0, {.listen = "0.0.0.0:0"}),
                         Errc::permission_denied));
}

TEST_F(ConfigBootstrap, TakesTheSecretOfTheEnvironment) {
  environment.set("VERBATIM_SECRET", kDigits);
  EXPECT_EQ(require(Bootstrap::config(of("node-a"), 1)).secret, secret);
  environment.set("VERBATIM_SECRET", "12");
  EXPECT_TRUE(
      fails_naming(Bootstrap::config(of("node-a"), 1), Errc::invalid_argument, "VERBATIM_SECRET"));
  EXPECT_TRUE(succeeds(Bootstrap::config(of("node-a"), 1, {.secret = secret})));
}

TEST_F(ConfigBootstrap, RanksMeetAtRankZero) {
  const auto network = of("127.0.0.1", free_port());
  std::vector<Identity> identities;
  for (Rank rank = 0; rank < 3; ++rank)
    identities.push_back(require(Bootstrap::config(network, rank, {.job = "tea"})));
  EXPECT_TRUE(identities[0].hosted);
  EXPECT_EQ(identities[0].hosted->port(), network[0].port);
  EXPECT_EQ(identities[0].device, "mlx5_0");
  meet_all(identities);
}

TEST_F(ConfigBootstrap, RankZeroMayListenElsewhere) {
  // As behind NAT: the name in the file is not an address of this machine, and cannot be bound.
  const auto network = of("192.0.2.1", 7000);
  auto first = require(Bootstrap::config(network, 0, {.secret = secret, .listen = "0.0.0.0:0"}));
  EXPECT_EQ(first.coordinator, "127.0.0.1:" + std::to_string(first.hosted->port()));
  std::vector<Identity> identities{first};
  for (Rank rank = 1; rank < 3; ++rank) {
    identities.push_back(require(Bootstrap::config(network, rank, {.secret = secret})));
    EXPECT_EQ(identities[rank].coordinator, "192.0.2.1:7000");
    identities[rank].coordinator = first.coordinator;  // What NAT would do.
  }
  meet_all(identities);
}

TEST_F(ConfigBootstrap, APortThatIsTakenIsBusy) {
  const auto other = require(Coordinator::open({.world = 1}));
  EXPECT_TRUE(fails_with(Bootstrap::config(of("127.0.0.1", other.port()), 0), Errc::busy));
}

TEST(OwnAddresses, AreNeitherLoopbackNorOfOneLinkOnly) {
  for (const std::string& address : detail::own_addresses()) {
    EXPECT_FALSE(detail::is_loopback_host(address)) << address;
    EXPECT_FALSE(address.starts_with("fe80")) << address;
  }
  EXPECT_FALSE(detail::loopback_id().empty());
  EXPECT_EQ(detail::loopback_id(), detail::loopback_id());
}

}  // namespace
}  // namespace verbatim::test
