// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: "host:port" has one meaning or is refused, and resolving it is bounded.
// Method: valid and invalid texts; numeric addresses, a name of this machine, one that cannot
//         exist.
#include "channel/socket_address.hpp"

#include <gtest/gtest.h>
#include <netdb.h>

#include <string>

#include "support/bounded_call.hpp"
#include "support/require.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

TEST(HostPort, IsSplitAtTheLastColon) {
  const auto named = require(detail::parse_host_port("storage-7:7000", "test"));
  EXPECT_EQ(named.host, "storage-7");
  EXPECT_EQ(named.port, 7000);
  const auto numeric = require(detail::parse_host_port("[fe80::1]:65535", "test"));
  EXPECT_EQ(numeric.host, "fe80::1");
  EXPECT_EQ(numeric.port, 65535);
  EXPECT_EQ(require(detail::parse_host_port(":0", "test")).host, "");
}

TEST(HostPort, RefusesWhatCouldMeanTwoThings) {
  for (const std::string_view text :
       {"", "host", "host:", "host:x", "host:-1", "host:65536", "host:70 ", "host: 70", "::1:70",
        "::1", "[]:70", "[::1]70", "[::1:70", "host]:70", "host:+70", "host:0x10"}) {
    const auto refused = detail::parse_host_port(text, "test");
    EXPECT_TRUE(fails_with(refused, Errc::invalid_argument)) << text;
    if (!refused) {
      EXPECT_EQ(refused.error().text_view(), text);
    }
  }
  EXPECT_TRUE(fails_with(detail::parse_host_port(std::string_view{"a\0b:1", 5}, "test"),
                         Errc::invalid_argument));
}

TEST(SocketAddress, OfANumericHostIsPrintedAsItWasRead) {
  for (const std::string text : {"127.0.0.1:7000", "[::1]:7000", "0.0.0.0:1"}) {
    const auto found =
        require(detail::resolve(require(detail::parse_host_port(text, "test")), call()));
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(detail::to_string(found[0]), text);
  }
}

TEST(SocketAddress, OfIpv4OnAnIpv6SocketIsWrittenAsIpv4) {
  const auto found = require(detail::resolve({.host = "::ffff:10.1.2.3", .port = 7}, call()));
  EXPECT_EQ(detail::to_string(found[0]), "10.1.2.3:7");
}

TEST(SocketAddress, OfAUnixSocketIsItsPathOrItsName) {
  EXPECT_TRUE(detail::is_unix("unix:/run/x"));
  EXPECT_FALSE(detail::is_unix("unix"));
  EXPECT_FALSE(detail::is_unix("host:70"));
  for (const std::string& text :
       {std::string{"unix:/run/x"}, std::string{"unix:relative"}, std::string{"unix:@name"},
        "unix:" + std::string(107, 'p'), "unix:@" + std::string(106, 'n')})
    EXPECT_EQ(detail::to_string(require(detail::parse_unix(text, "test"))), text);
}

TEST(SocketAddress, OfAUnixSocketIsRefusedIfNoneCouldBeMade) {
  const auto long_path = detail::parse_unix("unix:" + std::string(108, 'p'), "test");
  ASSERT_TRUE(fails_with(long_path, Errc::limit_exceeded));
  EXPECT_EQ(long_path.error().value, 108u);
  EXPECT_EQ(long_path.error().limit, 107u);
  for (const std::string_view text :
       {std::string_view{"unix:"}, std::string_view{"unix:@"}, std::string_view{"unix:a\0b", 8}})
    EXPECT_TRUE(fails_with(detail::parse_unix(text, "test"), Errc::invalid_argument)) << text;
}

TEST(SocketAddress, OfThisMachineHasAName) {
  addrinfo* names = nullptr;
  if (getaddrinfo("localhost", nullptr, nullptr, &names) != 0)
    GTEST_SKIP() << "this system does not know the name localhost";
  freeaddrinfo(names);
  const auto found = detail::resolve({.host = "localhost", .port = 7}, call());
  ASSERT_TRUE(succeeds(found));
  EXPECT_EQ(found->front().port(), 7);
}

TEST(SocketAddress, OfNobodyIsNotFound) {
  // A label of more than 63 characters, so that no server is queried.
  const std::string host = std::string(70, 'x') + ".invalid";
  const auto found = detail::resolve({.host = host, .port = 7}, call());
  ASSERT_TRUE(fails_with(found, Errc::not_found));
  EXPECT_STREQ(found.error().field, "host");
}

TEST(SocketAddress, IsNotLookedUpBeyondTheDeadline) {
  const auto late = detail::resolve({.host = "localhost", .port = 7}, call(-1s));
  EXPECT_TRUE(fails_with(late, Errc::timed_out));
}

TEST(SocketAddress, ToDialNeedsHostAndPort) {
  const auto no_host = detail::resolve({.host = "", .port = 7}, call());
  ASSERT_TRUE(fails_with(no_host, Errc::invalid_argument));
  EXPECT_STREQ(no_host.error().field, "host");
  const auto no_port = detail::resolve({.host = "::1", .port = 0}, call());
  ASSERT_TRUE(fails_with(no_port, Errc::invalid_argument));
  EXPECT_STREQ(no_port.error().field, "port");
  EXPECT_TRUE(succeeds(detail::resolve_local({.host = "", .port = 0}, call())));
}

TEST(Deadline, OfAnAgeDoesNotWrap) {
  const auto now = std::chrono::steady_clock::now();
  EXPECT_GT(detail::deadline_after(std::chrono::nanoseconds::max()), now + 1000h);
  const auto past = detail::deadline_after(-1h);
  EXPECT_LE(past, std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace verbatim::test
