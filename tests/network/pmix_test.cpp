// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: under a launcher that serves PMIx, ranks find each other without an option or a file;
//       without such a launcher, an error says so, and nothing waits.
// Method: the card of rank 0 as text; and a small program under the real mpirun.
// Covers: network/bootstrap_pmix.cpp, network/pmix.cpp, network/pmix_card.cpp
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "network/pmix_card.hpp"
#include "network/scoped_environment.hpp"
#include "support/command.hpp"
#include "support/named_error.hpp"
#include "support/require.hpp"
#include "verbatim/network/bootstrap.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using detail::PmixCard;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kSecretDigits(64, 'a');

PmixCard card() {
  return {.loopback = "boot/1",
          .addresses = {"10.0.0.1", "2001:db8::1"},
          .port = 7000,
          .secret = require(Secret::from_hex(kSecretDigits))};
}

TEST(PmixCard, RoundTripKeepsEveryField) {
  const auto read = require(detail::pmix_card_from_json(to_json(card())));
  EXPECT_EQ(read.loopback, card().loopback);
  EXPECT_EQ(read.addresses, card().addresses);
  EXPECT_EQ(read.port, card().port);
  EXPECT_EQ(read.secret, card().secret);
}

TEST(PmixCard, LoopbackIsForThoseWhoShareItAndFirst) {
  EXPECT_EQ(coordinators(card(), "boot/1"), "127.0.0.1:7000,10.0.0.1:7000,[2001:db8::1]:7000");
  EXPECT_EQ(coordinators(card(), "boot/2"), "10.0.0.1:7000,[2001:db8::1]:7000");
  EXPECT_EQ(coordinators(card(), ""), "10.0.0.1:7000,[2001:db8::1]:7000");
}

TEST(PmixCard, RefusesWhatIsWrongByName) {
  for (const char* key : {"version", "loopback", "addresses", "port", "secret"}) {
    json object = json::parse(to_json(card()));
    object.erase(key);
    EXPECT_TRUE(fails_naming(detail::pmix_card_from_json(object.dump()), Errc::malformed, key));
    object[key] = nullptr;
    EXPECT_TRUE(fails_naming(detail::pmix_card_from_json(object.dump()), Errc::malformed, key));
  }
  json object = json::parse(to_json(card()));
  object["addresses"][0] = 5;
  EXPECT_TRUE(
      fails_naming(detail::pmix_card_from_json(object.dump()), Errc::malformed, "addresses"));
  object = json::parse(to_json(card()));
  object["secret"] = "beef";
  const auto result = detail::pmix_card_from_json(object.dump());
  EXPECT_TRUE(fails_naming(result, Errc::malformed, "secret"));
  EXPECT_EQ(to_string(result.error()).find("beef"), std::string::npos);
  object["version"] = 2;
  EXPECT_TRUE(fails_naming(detail::pmix_card_from_json(object.dump()), Errc::incompatible,
                           "version", {.value = 2, .limit = 1}));
}

TEST(PmixBootstrap, IsNotFoundWithoutAServer) {
  const ScopedEnvironment none;
  EXPECT_TRUE(fails_naming(Bootstrap::pmix(1s), Errc::not_found, "PMIX_NAMESPACE"));
}

TEST(PmixBootstrap, IsNotFoundWhenTheServerIsGone) {
  const auto outcome = run_command({VERBATIM_RANK_PROGRAM}, {"PMIX_NAMESPACE=gone", "PMIX_RANK=0"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("bootstrap: not found: neither VERBATIM_RANK"));
}

TEST(PmixBootstrap, IsNotFoundWithoutTheLibrary) {
  // A library of that name that has none of the functions.
  const auto outcome = run_command(
      {VERBATIM_RANK_PROGRAM},
      {"PMIX_NAMESPACE=any", "PMIX_RANK=0", std::string{"LD_LIBRARY_PATH="} + VERBATIM_EMPTY_PMIX});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("not found: libpmix.so.2"));
}

class UnderMpirun : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null") != 0)
      GTEST_SKIP() << "mpirun is not installed (openmpi-bin)";
  }
  /// On a busy machine, OpenMPI 4.1's mpirun sometimes misses that a rank has ended. It then
  /// reports that a rank with process number 0 failed, or waits for ever. That is not our fault, so
  /// the test starts it again. If a rank of ours forgot to finalize, the report would contain its
  /// number.
  static Command::Outcome start(const std::vector<std::string>& options,
                                const std::vector<std::string>& arguments = {}) {
    std::vector<std::string> words{"timeout", "20", "mpirun", "--oversubscribe",
                                   "--allow-run-as-root"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back(VERBATIM_RANK_PROGRAM);
    words.insert(words.end(), arguments.begin(), arguments.end());
    constexpr int kLate = 124;  // What timeout(1) says.
    auto outcome = run_command(words);
    for (int again = 0; again < 3 && (outcome.status == kLate ||
                                      outcome.errors.find("PID 0 on") != std::string::npos);
         ++again) {
      std::printf("mpirun failed by itself, again: %s\n", outcome.errors.c_str());
      outcome = run_command(words);
    }
    return outcome;
  }
  static std::vector<std::string> sums_of_four() {
    return {"rank 0 of 4: sum 10", "rank 1 of 4: sum 10", "rank 2 of 4: sum 10",
            "rank 3 of 4: sum 10"};
  }
};

TEST_F(UnderMpirun, RanksMeet) {
  const auto outcome = start({"-n", "4"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(sorted_lines(outcome.output), sums_of_four());
}

TEST_F(UnderMpirun, OneRankIsAJob) {
  const auto outcome = start({"-n", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "rank 0 of 1: sum 1\n");
}

TEST_F(UnderMpirun, RanksMeetWithRecoveryEnabled) {
  const auto outcome = start({"-n", "4", "--enable-recovery"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(sorted_lines(outcome.output), sums_of_four());
}

TEST_F(UnderMpirun, SurvivorsNameARankThatIsKilledWithRecoveryEnabled) {
  const auto outcome = start({"-n", "4", "--enable-recovery"}, {"lose", "2"});
  EXPECT_THAT(sorted_lines(outcome.output), ElementsAre("lost 2", "lost 2", "lost 2"))
      << outcome.errors;
}

TEST_F(UnderMpirun, ARankThatDoesNotComeIsATimeOutThatNamesIt) {
  auto outcome = start({"-n", "3", "--enable-recovery"}, {"absent", "1"});
  // The coordinator has 250 ms to name the missing, and a busy machine may not let it.
  for (int again = 0;
       again < 3 && outcome.errors.find("timed out: ranks missing") != std::string::npos; ++again)
    outcome = start({"-n", "3", "--enable-recovery"}, {"absent", "1"});
  EXPECT_THAT(sorted_lines(outcome.output), ElementsAre());
  EXPECT_THAT(outcome.errors, HasSubstr("timed out: 1"));
}

}  // namespace
}  // namespace verbatim::test
