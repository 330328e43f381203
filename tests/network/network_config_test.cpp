// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a network configuration has ranks from 0 on without a gap; each mistake in a file is one
//       error with the key, the value and the place.
// Method: configurations that are built, or written as text with one mistake.
// Covers: network/config.cpp, network/config_json.cpp
#include "verbatim/network/network_config.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/named_error.hpp"
#include "support/require.hpp"

namespace verbatim::test {
namespace {

using nlohmann::json;

NodeConfig node(Rank rank, const std::string& host = "host") {
  return {.hostname = host, .port = 7000, .ibdev = "mlx5_0", .rankid = rank};
}

RawNetworkConfig of_ranks(std::initializer_list<Rank> ranks) {
  RawNetworkConfig config;
  for (const Rank rank : ranks) config.add_node(node(rank, "host" + std::to_string(rank)));
  return config;
}

json sound() {
  return json::parse(R"({"hosts": [
    {"hostname": "node-a", "port": 7000, "ibdev": "mlx5_0", "rankid": 1, "comment": "left"},
    {"hostname": "node-b", "port": 7001, "ibdev": "mlx5_1", "rankid": 0}]})");
}

Result<RawNetworkConfig> with(const char* pointer, const json& value) {
  json object = sound();
  object[json::json_pointer{pointer}] = value;
  return RawNetworkConfig::from_json(object.dump());
}

TEST(NetworkConfigBuild, TwoNodesAreAWorld) {
  const auto config = require(of_ranks({0, 1}).build());
  EXPECT_EQ(config.world(), 2);
  EXPECT_EQ(config[0].hostname, "host0");
  EXPECT_EQ(config[1].hostname, "host1");
}

TEST(NetworkConfigBuild, SortsByRank) {
  const auto config = require(of_ranks({2, 0, 1}).build());
  Rank expected = 0;
  for (const NodeConfig& each : config) EXPECT_EQ(each.rankid, expected++);
  EXPECT_EQ(config.nodes().size(), 3);
  EXPECT_EQ(config[2].hostname, "host2");
}

TEST(NetworkConfigBuild, OneNodeIsEnough) { EXPECT_EQ(require(of_ranks({0}).build()).world(), 1); }

TEST(NetworkConfigBuild, RefusesNone) {
  const auto result = RawNetworkConfig{}.build();
  EXPECT_TRUE(fails_naming(result, Errc::invalid_argument, "hosts"));
  EXPECT_EQ(result.error().text_view(), "there are none");
}

TEST(NetworkConfigBuild, RefusesAFirstRankThatIsNotZero) {
  const auto result = of_ranks({2, 1}).build();
  EXPECT_TRUE(fails_naming(result, Errc::invalid_argument, "rankid", {.value = 1}));
  EXPECT_EQ(result.error().text_view(), "the first is not 0");
}

TEST(NetworkConfigBuild, RefusesAGapAndNamesTheRankThatIsMissing) {
  const auto result = of_ranks({0, 2}).build();
  EXPECT_TRUE(fails_naming(result, Errc::invalid_argument, "rankid", {.value = 1}));
  EXPECT_EQ(result.error().text_view(), "missing");
  EXPECT_EQ(to_string(result.error()), "network config: invalid argument: missing: rankid 1");
}

TEST(NetworkConfigBuild, RefusesARankThatIsThereTwice) {
  const auto result = of_ranks({0, 1, 1}).build();
  EXPECT_TRUE(fails_naming(result, Errc::invalid_argument, "rankid", {.value = 1}));
  EXPECT_EQ(result.error().text_view(), "there twice");
  const auto zero = of_ranks({0, 0}).build();
  EXPECT_TRUE(fails_naming(zero, Errc::invalid_argument, "rankid"));
  EXPECT_EQ(zero.error().text_view(), "there twice");
}

TEST(NetworkConfigBuild, TellsTheFirstMistakeInTheOrderOfRanks) {
  const auto gap_first = of_ranks({0, 2, 3, 3}).build();
  EXPECT_TRUE(fails_naming(gap_first, Errc::invalid_argument, "rankid", {.value = 1}));
  EXPECT_EQ(gap_first.error().text_view(), "missing");
  const auto twice_first = of_ranks({0, 1, 1, 4}).build();
  EXPECT_TRUE(fails_naming(twice_first, Errc::invalid_argument, "rankid", {.value = 1}));
  EXPECT_EQ(twice_first.error().text_view(), "there twice");
  const auto not_zero = of_ranks({3, 3}).build();
  EXPECT_EQ(not_zero.error().text_view(), "the first is not 0");
}

TEST(NetworkConfigBuild, TruncatesInTheOrderOfTheFile) {
  auto config = of_ranks({1, 0, 2});
  EXPECT_EQ(require(config.truncate(2).build()).world(), 2);
  EXPECT_EQ(config.truncate(9).nodes().size(), 2);
  EXPECT_TRUE(
      fails_naming(config.truncate(1).build(), Errc::invalid_argument, "rankid", {.value = 1}));
  EXPECT_TRUE(fails_naming(config.truncate(0).build(), Errc::invalid_argument, "hosts"));
}

TEST(NetworkConfigJson, ReadsEveryKey) {
  const auto config = require(require(RawNetworkConfig::from_json(sound().dump())).build());
  const NodeConfig first{.hostname = "node-b", .port = 7001, .ibdev = "mlx5_1", .rankid = 0};
  const NodeConfig second{
      .hostname = "node-a", .port = 7000, .ibdev = "mlx5_0", .rankid = 1, .comment = "left"};
  EXPECT_EQ(config[0], first);
  EXPECT_EQ(config[1], second);
}

TEST(NetworkConfigJson, WritesWhatItReadsAndLeavesEmptyCommentsOut) {
  const auto raw = require(RawNetworkConfig::from_json(sound().dump()));
  EXPECT_EQ(json::parse(to_json(raw)), sound());
  const auto built = json::parse(to_json(require(raw.build())));
  EXPECT_EQ(built["hosts"][0]["rankid"], 0);
  EXPECT_FALSE(built["hosts"][0].contains("comment"));
  EXPECT_EQ(built["hosts"][1]["comment"], "left");
}

TEST(NetworkConfigJson, WritesANameThatIsNoText) {
  const auto text = to_json(RawNetworkConfig{}.add_node(node(0, "caf\xe9")));
  EXPECT_TRUE(succeeds(RawNetworkConfig::from_json(text)));
}

TEST(NetworkConfigJson, PassesOverUnknownKeys) {
  EXPECT_TRUE(succeeds(with("/hosts/0/rack", 7)));
  EXPECT_TRUE(succeeds(with("/version", "any")));
}

TEST(NetworkConfigJson, MissesEachKeyByNameAndPlace) {
  for (const char* key : {"hostname", "port", "ibdev", "rankid"}) {
    json object = sound();
    object["hosts"][1].erase(key);
    const auto result = RawNetworkConfig::from_json(object.dump());
    EXPECT_TRUE(fails_naming(result, Errc::malformed, key));
    EXPECT_EQ(result.error().text_view(), "missing in hosts[1]");
  }
  EXPECT_TRUE(fails_naming(RawNetworkConfig::from_json("{}"), Errc::malformed, "hosts"));
}

TEST(NetworkConfigJson, RefusesEachKeyOfAnotherType) {
  for (const char* key : {"hostname", "port", "ibdev", "rankid", "comment"}) {
    const std::string pointer = std::string{"/hosts/0/"} + key;
    const auto result = with(pointer.c_str(), json::array());
    EXPECT_TRUE(fails_naming(result, Errc::malformed, key));
    EXPECT_EQ(result.error().text_view(), "array in hosts[0]");
    EXPECT_TRUE(fails_naming(with(pointer.c_str(), nullptr), Errc::malformed, key));
  }
  EXPECT_TRUE(fails_naming(with("/hosts/0/port", "7000"), Errc::malformed, "port"));
  EXPECT_TRUE(fails_naming(with("/hosts/0/rankid", -1), Errc::malformed, "rankid"));
  EXPECT_TRUE(fails_naming(with("/hosts/0/rankid", 0.5), Errc::malformed, "rankid"));
  EXPECT_TRUE(fails_naming(with("/hosts/1", 5), Errc::malformed, "hosts"));
  EXPECT_TRUE(fails_naming(with("/hosts", json::object()), Errc::malformed, "hosts"));
}

TEST(NetworkConfigJson, RefusesNumbersThatDoNotFit) {
  const auto port = with("/hosts/1/port", 65536);
  EXPECT_TRUE(fails_naming(port, Errc::malformed, "port", {.value = 65536, .limit = 65535}));
  EXPECT_EQ(port.error().text_view(), "hosts[1]");
  EXPECT_TRUE(fails_naming(with("/hosts/1/rankid", 4294967296), Errc::malformed, "rankid",
                           {.value = 4294967296, .limit = 4294967295}));
}

TEST(NetworkConfigJson, RefusesWhatIsNoObject) {
  for (const char* text : {"", "[]", "{", "hosts", "{\"hosts\": [}"})
    EXPECT_TRUE(fails_with(RawNetworkConfig::from_json(text), Errc::malformed)) << text;
  EXPECT_TRUE(
      fails_with(RawNetworkConfig::from_json(std::string((16 << 20) + 1, ' ')), Errc::malformed));
}

TEST(NetworkConfigJson, HasRoomForManyRanks) {
  RawNetworkConfig many;
  for (Rank rank = 0; rank < 4096; ++rank) many.add_node(node(rank));
  EXPECT_EQ(require(RawNetworkConfig::from_json(to_json(many))).nodes().size(), 4096);
}

class NetworkConfigFile : public testing::Test {
 protected:
  NetworkConfigFile() {
    std::string name = testing::TempDir() + "network-config-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) give_up("mkdtemp", std::source_location::current());
    directory = name;
  }
  ~NetworkConfigFile() override { std::filesystem::remove_all(directory); }
  std::string write(const std::string& text) const {
    const auto path = directory / "hosts.json";
    std::ofstream{path} << text;
    return path;
  }
  std::filesystem::path directory;
};

TEST_F(NetworkConfigFile, IsLoaded) {
  const auto config = require(load_network_config(write(sound().dump())));
  EXPECT_EQ(config.world(), 2);
  EXPECT_EQ(config[0].hostname, "node-b");
}

TEST_F(NetworkConfigFile, ThatIsMissingIsNotFoundWithItsPath) {
  const auto result = load_network_config("/nowhere/hosts.json");
  EXPECT_TRUE(fails_with(result, Errc::not_found));
  EXPECT_EQ(result.error().text_view(), "/nowhere/hosts.json");
  const auto deep = load_network_config("/a/very/long/way/down/to/hosts.json");
  EXPECT_EQ(deep.error().text_view(), "...y/down/to/hosts.json");
}

TEST_F(NetworkConfigFile, ThatIsADirectoryOrBrokenIsAnError) {
  EXPECT_FALSE(load_network_config(directory).has_value());
  EXPECT_TRUE(fails_with(load_network_config(write("{")), Errc::malformed));
  EXPECT_TRUE(
      fails_naming(load_network_config(write(R"({"hosts":[]})")), Errc::invalid_argument, "hosts"));
}

}  // namespace
}  // namespace verbatim::test
