// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a measurement is made of keeps its word: percentiles, the check of a case that a peer
//       sends, records on the control connection, and both kinds of picture.
// Method: the parts themselves, without a device.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "measure/case.hpp"
#include "measure/control.hpp"
#include "measure/failure.hpp"
#include "measure/histogram.hpp"
#include "measure/report.hpp"
#include "measure/svg.hpp"
#include "support/seed.hpp"
#include "with_port.hpp"

namespace verbatim::test {
namespace {

using namespace verbatim::cli;
using namespace std::chrono_literals;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Histogram, PercentilesAreWithinTwoPercentOfTheSortedTimes) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  std::vector<std::uint64_t> all;
  Histogram histogram;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t time = random() >> (random() % 64);  // Of every magnitude.
    all.push_back(time);
    histogram.add(time);
  }
  std::ranges::sort(all);
  EXPECT_EQ(histogram.least(), all.front());
  EXPECT_EQ(histogram.greatest(), all.back());
  for (const double part : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(part * 20000)) - 1;
    const auto exact = static_cast<double>(all[rank]);
    EXPECT_NEAR(histogram.percentile(part), exact, exact * 0.016 + 0.5) << part;
  }
}

TEST(Histogram, OfNothingIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.percentile(0.5), 0);
  EXPECT_EQ(histogram.least(), 0u);
}

TEST(Histogram, CountsATimeAsOftenAsItIsTold) {
  Histogram histogram;
  histogram.add(10, 3);
  histogram.add(20, 2);
  EXPECT_EQ(histogram.count(), 5u);
  EXPECT_EQ(histogram.percentile(0.5), 10);
  EXPECT_EQ(histogram.percentile(0.7), 20);
}

TEST(MeasuredCase, SurvivesItsJson) {
  const Case each{.verb = Verb::read, .bytes = 4096, .depth = 7, .queue_pairs = 3, .batch = 2};
  EXPECT_EQ(case_from(to_json(each)), each);
}

class RefusedCases : public testing::TestWithParam<json> {};
TEST_P(RefusedCases, AreOneSentence) {
  json sound = to_json(Case{});
  if (GetParam().is_object())
    sound.update(GetParam());
  else
    sound = GetParam();
  EXPECT_THROW(static_cast<void>(case_from(sound)), Failure) << sound;
}
INSTANTIATE_TEST_SUITE_P(
    MeasuredCase, RefusedCases,
    testing::Values(json(7), json::array(), json{{"verb", "fly"}}, json{{"verb", 3}},
                    json{{"bytes", 0}}, json{{"bytes", -8}}, json{{"bytes", 1e9}},
                    json{{"bytes", std::uint64_t{1} << 63}}, json{{"depth", 0}},
                    json{{"depth", 1025}}, json{{"depth", std::uint64_t{1} << 32}},
                    json{{"queue_pairs", 0}}, json{{"queue_pairs", 65}}, json{{"batch", 65}},
                    json{{"batch", nullptr}}, json{{"verb", "atomic"}, {"bytes", 16}},
                    json{{"bytes", kMostBytes}, {"queue_pairs", 64}}));

TEST(MeasuredSizes, AreListsAndRanges) {
  EXPECT_THAT(sizes_from("8"), ElementsAre(8));
  EXPECT_THAT(sizes_from("8,4K,1M"), ElementsAre(8, 4096, 1 << 20));
  EXPECT_THAT(sizes_from("8-64,4k"), ElementsAre(8, 16, 32, 64, 4096));
  EXPECT_THAT(sizes_from("1,7,64M"), ElementsAre(1, 7, 64 << 20));
  EXPECT_THAT(sizes_from("3-20"), ElementsAre(3, 6, 12));
  for (const char* const wrong : {"", "8,", "0", "8,0", "0K", "64.5", "-8", "8-", "64-8", "0-8",
                                  "4G", "8 ", "99999999999999999999", "65M", "x"})
    EXPECT_THROW(static_cast<void>(sizes_from(wrong)), Failure) << wrong;
}

TEST(ControlAddress, GetsThePortThatItLacks) {
  EXPECT_EQ(with_port("host", 7), "host:7");
  EXPECT_EQ(with_port("host:9", 7), "host:9");
  EXPECT_EQ(with_port("::1", 7), "[::1]:7");
  EXPECT_EQ(with_port("[::1]", 7), "[::1]:7");
  EXPECT_EQ(with_port("[::1]:9", 7), "[::1]:9");
}

struct ControlPair : testing::Test {
  ControlPair() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    control.emplace(verbatim::detail::PrivateDescriptor{ends[0]});
  }
  ~ControlPair() override { hang_up(); }
  void hang_up() {
    if (ends[1] >= 0) ::close(std::exchange(ends[1], -1));
  }
  void put(const std::string& bytes) const {
    ASSERT_EQ(::write(ends[1], bytes.data(), bytes.size()), std::ssize(bytes));
  }
  std::string complaint() {
    try {
      return control->receive(50ms).dump();
    } catch (const Failure& why) {
      return why.what();
    }
  }
  int ends[2] = {-1, -1};
  std::optional<Control> control;
};

TEST_F(ControlPair, RefusesWhatIsNotARecord) {
  put("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(complaint(), "the other end talks something else");
}

TEST_F(ControlPair, EndsAWaitAtItsLimit) {
  put("{\"half\":");
  EXPECT_EQ(complaint(), "the other end does not answer");
}

TEST_F(ControlPair, QuotesTheErrorOfThePeer) {
  put("{\"error\":\"no such thing\"}\n");
  EXPECT_EQ(complaint(), "the other end says: no such thing");
}

TEST_F(ControlPair, NoticesTheEndOfThePeer) {
  hang_up();
  EXPECT_TRUE(control->is_readable());
  EXPECT_TRUE(control->has_ended(5s));
  EXPECT_EQ(complaint(), "the other end is gone");
}

std::vector<Row> two_rows() {
  std::vector<Row> rows;
  for (const std::uint64_t bytes : {8uz, 4096uz}) {
    Row& row = rows.emplace_back(Row{.what = {.verb = Verb::write, .bytes = bytes}});
    for (std::uint64_t time = 200; time < 300; ++time) row.outcome.latency.add(time * bytes / 8);
    row.outcome.volume = {.messages = 1'000'000, .seconds = 0.5};
  }
  return rows;
}

TEST(Report, HalvesTheRoundTripOfAWriteButNotOfARead) {
  auto rows = two_rows();
  EXPECT_NEAR(rows[0].microseconds(0.5), 0.125, 0.003);
  rows[0].what.verb = Verb::read;
  EXPECT_NEAR(rows[0].microseconds(0.5), 0.25, 0.006);
  EXPECT_DOUBLE_EQ(rows[0].million_per_s(), 2);
}

TEST(Report, TheRateIsThatOfMostMessagesAndANoteSaysThatTheMeanIsLower) {
  auto rows = two_rows();
  EXPECT_EQ(interruption_note(rows), "");
  for (Row& row : rows) row.outcome.volume.pace.add(100'000, 900'000);  // 100 ns for each message.
  rows[1].outcome.volume.pace.add(40'000'000, 100'000);
  EXPECT_NEAR(rows[1].million_per_s(), 10, 0.2);
  EXPECT_DOUBLE_EQ(rows[1].mean_million_per_s(), 2);
  rows[0].outcome.volume.seconds = 0.1;  // As fast as its slices were.
  EXPECT_THAT(interruption_note(rows), HasSubstr("write 4K made 2.00 M/s, not "));
  EXPECT_EQ(interruption_note(std::span{rows}.first(1)), "");
  EXPECT_DOUBLE_EQ(to_json(rows[1])["bandwidth"]["mean_million_per_s"].get<double>(), 2);
}

TEST(Report, BarsAreAsciiWhereTheLocaleIs) {
  const auto rows = two_rows();
  const Terminal nobody{-1};
  const auto plain = bars(rows, nobody, false);
  EXPECT_TRUE(std::ranges::all_of(plain, [](char each) { return (each & 0x80) == 0; })) << plain;
  EXPECT_THAT(plain, HasSubstr("write 4K ###"));
  EXPECT_THAT(bars(rows, nobody, true), HasSubstr("\u2588"));
  EXPECT_EQ(bars({}, nobody, true), "");
}

/// As an XML parser counts them: each element that is opened is closed.
int open_elements(const std::string& xml) {
  int open = 0;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    if (xml[at + 1] == '?' || xml[end - 1] == '/') continue;
    open += xml[at + 1] == '/' ? -1 : 1;
  }
  return open;
}

TEST(SvgPlot, IsWellFormedWhateverTheTitleSays) {
  const auto svg = svg_plot(two_rows(), "a <b> & \"c\"\x01");
  EXPECT_THAT(svg, HasSubstr("a &lt;b&gt; &amp; \"c\"<"));
  EXPECT_EQ(open_elements(svg), 0);
  EXPECT_THAT(svg, HasSubstr("write median"));
  EXPECT_THAT(svg, HasSubstr("bandwidth, MiB/s"));
  for (const char* const none : {"nan", "inf"}) EXPECT_THAT(svg, Not(HasSubstr(none)));
}

TEST(SvgPlot, OfOnePointOrNoneIsStillAPicture) {
  const auto rows = two_rows();
  for (const auto& some : {std::span{rows}.first(0), std::span{rows}.first(1)}) {
    const auto svg = svg_plot(some, "t");
    EXPECT_EQ(open_elements(svg), 0);
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
  }
}

}  // namespace
}  // namespace verbatim::test
