// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: JSON keeps all three fields, and an error names what is wrong in it.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "verbatim/verbs/remote_memory.hpp"

namespace verbatim {
namespace {

TEST(RemoteMemoryJson, RoundTripKeepsAllFields) {
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  for (const RemoteMemoryRegion& region :
       {RemoteMemoryRegion{0x1000, 100, RemoteKey{42}}, RemoteMemoryRegion{},
        RemoteMemoryRegion{kMax - 1, 1, RemoteKey{0xffffffff}}})
    EXPECT_EQ(remote_memory_from_json(to_json(region)).value(), region);
}

TEST(RemoteMemoryJson, IsOneObject) {
  EXPECT_EQ(to_json(RemoteMemoryRegion{4096, 100, RemoteKey{42}}),
            R"({"address":4096,"length":100,"key":42})");
}

TEST(RemoteMemoryJson, NamesTheFieldAtFault) {
  struct Row {
    const char* json;
    const char* field;
    const char* text;
  };
  for (const Row& row : {
           Row{"", "json", "not JSON"},
           Row{"[1]", "json", "not an object"},
           Row{R"({"length":1,"key":2})", "address", "missing"},
           Row{R"({"address":0,"length":-1,"key":2})", "length", "negative"},
           Row{R"({"address":0,"length":1,"key":4294967296})", "key", ""},
           Row{R"({"address":"0","length":1,"key":2})", "address", "string"},
           Row{R"({"address":2,"length":18446744073709551615,"key":2})", "length", ""},
           Row{R"({"address":0,"length":18446744073709551616,"key":2})", "length",
               "not a 64-bit integer"},
       }) {
    const auto result = remote_memory_from_json(row.json);
    ASSERT_FALSE(result) << row.json;
    EXPECT_EQ(result.error(), Errc::malformed) << row.json;
    EXPECT_STREQ(result.error().operation, "remote_memory_from_json");
    EXPECT_STREQ(result.error().field, row.field) << row.json;
    EXPECT_EQ(result.error().text_view(), row.text) << row.json;
  }
  EXPECT_EQ(remote_memory_from_json(R"({"address":0,"length":1,"key":4294967296})").error().limit,
            0xffffffffu);
}

}  // namespace
}  // namespace verbatim
