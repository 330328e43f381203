// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the JSON form keeps every field, and each field is checked by name, type and range.
// Method: the text of one endpoint, with one field at a time replaced or left out.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "support/endpoints.hpp"
#include "support/seed.hpp"
#include "verbatim/verbs/endpoint.hpp"

namespace verbatim {
namespace {

using nlohmann::json;
using test::endpoint;

json sound() { return json::parse(to_json(endpoint())); }

Result<Endpoint> with(const char* pointer, const json& value) {
  json object = sound();
  object[json::json_pointer{pointer}] = value;
  return endpoint_from_json(object.dump());
}

TEST(EndpointJson, RoundTripKeepsEveryField) {
  EXPECT_EQ(endpoint_from_json(to_json(endpoint())).value(), endpoint());
  EXPECT_EQ(endpoint_from_json(to_json(Endpoint{})).value(), Endpoint{});
}

TEST(EndpointJson, IsReadable) {
  EXPECT_EQ(to_json(endpoint()),
            R"({"version":1,"nonce":72623859790382856,"transport":"kernel_software",)"
            R"("fabric_id":1230066625199609624,"link_layer":"ethernet","lid":8482,)"
            R"("gids":[{"gid":"::ffff:10.0.0.1","index":3,"type":"roce_v2"},)"
            R"({"gid":"fe80::1","index":1,"type":"roce_v1"}],"grh_required":true,)"
            R"("type":"unreliable_connection","queue_pair":3224115,"psn":4276803,)"
            R"("partition_key":65535,"queue_key":1364349780,"mtu":1024,)"
            R"("read_atomic_initiator":16,"read_atomic_responder":17,)"
            R"("max_message_bytes":1073741824,"ack_timeout":20,"min_rnr_timer":9,)"
            R"("atomics":true,"remote_write":true})");
}

TEST(EndpointJson, MissesEachFieldByName) {
  const json whole = sound();
  for (const auto& [key, value] : whole.items()) {
    json object = sound();
    object.erase(key);
    const auto result = endpoint_from_json(object.dump());
    ASSERT_FALSE(result) << key;
    EXPECT_EQ(result.error(), Errc::malformed);
    EXPECT_STREQ(result.error().operation, "endpoint_from_json");
    EXPECT_EQ(result.error().field, key);
    EXPECT_EQ(result.error().text_view(), "missing");
  }
  for (const char* key : {"gid", "index", "type"}) {
    json object = sound();
    object["gids"][0].erase(key);
    EXPECT_STREQ(endpoint_from_json(object.dump()).error().field, key);
  }
}

TEST(EndpointJson, RefusesEachFieldOfAnotherType) {
  const json whole = sound();
  for (const auto& [key, value] : whole.items()) {
    for (const json& wrong : {json(nullptr), json::object(), json(1.5), json(-1)}) {
      json object = sound();
      object[key] = wrong;
      const auto result = endpoint_from_json(object.dump());
      ASSERT_FALSE(result) << key << " = " << wrong;
      EXPECT_EQ(result.error().field, key) << wrong;
      EXPECT_NE(result.error().text_view(), "") << wrong;
    }
  }
}

TEST(EndpointJson, NegativeAndFractionAreSaidSo) {
  EXPECT_EQ(with("/lid", -1).error().text_view(), "negative");
  EXPECT_EQ(with("/lid", 1.0).error().text_view(), "not a 64-bit integer");
  EXPECT_EQ(with("/lid", "1").error().text_view(), "string");
  EXPECT_EQ(with("/atomics", 1).error().text_view(), "number");
}

TEST(EndpointJson, RefusesNumbersThatAreTooBig) {
  struct Row {
    const char* field;
    std::uint64_t limit;
  };
  for (const Row& row :
       {Row{"lid", 0xffff}, Row{"queue_pair", 0xffffff}, Row{"psn", 0xffffff},
        Row{"partition_key", 0xffff}, Row{"queue_key", 0xffffffff}, Row{"mtu", 4096},
        Row{"read_atomic_initiator", 255}, Row{"read_atomic_responder", 255},
        Row{"max_message_bytes", 0xffffffff}, Row{"ack_timeout", 31}, Row{"min_rnr_timer", 31}}) {
    const std::string pointer = std::string{"/"} + row.field;
    EXPECT_TRUE(with(pointer.c_str(), row.limit)) << row.field;
    const auto result = with(pointer.c_str(), row.limit + 1);
    ASSERT_FALSE(result) << row.field;
    EXPECT_STREQ(result.error().field, row.field);
    EXPECT_EQ(result.error().value, row.limit + 1);
    EXPECT_EQ(result.error().limit, row.limit);
  }
}

TEST(EndpointJson, RefusesWhatHasNoMeaning) {
  struct Row {
    const char* pointer;
    json value;
    const char* field;
  };
  for (const Row& row : {
           Row{"/version", 2, "version"},
           Row{"/version", 0, "version"},
           Row{"/version", 65537, "version"},
           Row{"/transport", "pigeon", "transport"},
           Row{"/transport", "", "transport"},
           Row{"/link_layer", "Ethernet", "link_layer"},
           Row{"/type", "RC", "type"},
           Row{"/mtu", 0, "mtu"},
           Row{"/mtu", 3, "mtu"},
           Row{"/mtu", 1500, "mtu"},
           Row{"/gids", json::array({1}), "gids"},
           Row{"/gids/0/type", "roce_v3", "type"},
           Row{"/gids/0/index", 1ull << 32, "index"},
       }) {
    const auto result = with(row.pointer, row.value);
    ASSERT_FALSE(result) << row.pointer << ' ' << row.value;
    EXPECT_EQ(result.error(), Errc::malformed);
    EXPECT_STREQ(result.error().field, row.field) << row.pointer << ' ' << row.value;
  }
}

TEST(EndpointJson, ReadsGidsStrictly) {
  for (const char* text : {"", "fe80", "fe80::1%eth0", "fe80::1/64", " fe80::1", "fe80::1 ",
                           "10.0.0.1", "::ffff:10.0.0.256", "::g", "1::2::3"}) {
    const auto result = with("/gids/0/gid", text);
    ASSERT_FALSE(result) << text;
    EXPECT_STREQ(result.error().field, "gid") << text;
  }
  EXPECT_FALSE(with("/gids/0/gid", std::string{"fe80::1\0x", 9}));
  EXPECT_FALSE(with("/gids/0/gid", std::string(60000, ':')));
}

TEST(EndpointJson, TakesAtMostEightGids) {
  const json entry = sound()["gids"][0];
  EXPECT_TRUE(with("/gids", json::array()));
  EXPECT_TRUE(with("/gids", json(8, entry)));
  const auto result = with("/gids", json(9, entry));
  ASSERT_FALSE(result);
  EXPECT_STREQ(result.error().field, "gids");
  EXPECT_EQ(result.error().value, 9u);
  EXPECT_EQ(result.error().limit, 8u);
}

TEST(EndpointJson, PassesOverUnknownKeys) {
  EXPECT_EQ(with("/comment", "rank 3").value(), endpoint());
}

TEST(EndpointJson, RefusesTextThatIsNoObject) {
  for (const char* text : {"", " ", "null", "1", "[]", "{", "{}}", "{'version':1}", "\xff\xfe",
                           "{\"version\":1,}", "// comment\n{}"}) {
    const auto result = endpoint_from_json(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error(), Errc::malformed) << text;
    EXPECT_STREQ(result.error().field, "json") << text;
  }
}

TEST(EndpointJson, RefusesLongTextBeforeReadingIt) {
  std::string text = to_json(endpoint());
  text.resize(std::size_t{64} * 1024, ' ');
  EXPECT_TRUE(endpoint_from_json(text));
  const auto result = endpoint_from_json(text + ' ');
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().text_view(), "too long");
  EXPECT_EQ(result.error().limit, 64u * 1024);
}

TEST(EndpointJson, DeepNestingDoesNoHarm) {
  EXPECT_FALSE(endpoint_from_json(std::string(60000, '[')));
  EXPECT_FALSE(endpoint_from_json(std::string(30000, '[') + std::string(30000, ']')));
  std::string objects;
  for (int i = 0; i < 10000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(endpoint_from_json(objects));
}

TEST(EndpointJson, SurvivesRandomEndpoints) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  for (int i = 0; i < 500; ++i) {
    const Endpoint made = test::random_endpoint(random);
    ASSERT_EQ(endpoint_from_json(to_json(made)).value(), made) << "round " << i;
  }
}

TEST(EndpointJson, RandomDamageDoesNoHarm) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  for (int i = 0; i < 3000; ++i) {
    std::string text = to_json(endpoint());
    for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes)
      text[random() % text.size()] = static_cast<char>(random());
    const auto result = endpoint_from_json(text);
    if (result) {
      ASSERT_EQ(endpoint_from_json(to_json(*result)).value(), *result) << "round " << i;
    } else {
      ASSERT_EQ(result.error(), Errc::malformed) << "round " << i;
    }
  }
}

}  // namespace
}  // namespace verbatim
