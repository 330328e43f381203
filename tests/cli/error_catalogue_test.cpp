// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the catalogue says what explain() says, and finds an error by each name that it has.
#include "error_catalogue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <utility>

#include "base/system_state.hpp"
#include "verbatim/base/error_guide.hpp"

namespace verbatim::cli {

std::ostream& operator<<(std::ostream& out, const ErrorEntry& entry) {
  return out << to_text(entry);
}

namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

auto is(ErrorKind kind, const char* code) {
  return AllOf(Field(&ErrorEntry::kind, kind), Field(&ErrorEntry::code, code));
}

TEST(ErrorCatalogue, HasEveryCodeAndEveryStatus) {
  std::set<std::string> names;
  std::size_t codes = 0;
  std::size_t statuses = 0;
  for (const ErrorEntry& entry : error_catalogue()) {
    EXPECT_TRUE(names.insert(std::string{to_string(entry.kind)} + entry.code).second);
    EXPECT_FALSE(entry.name.empty() || entry.meaning.empty()) << entry.code;
    codes += entry.kind == ErrorKind::code;
    statuses += entry.kind == ErrorKind::work_status;
  }
  EXPECT_EQ(codes, guide_to_codes().size());
  EXPECT_EQ(statuses, guide_to_statuses().size());
}

TEST(ErrorCatalogue, SaysOfAStatusWhatExplainSays) {
  for (const ErrorEntry& entry : error_catalogue()) {
    if (entry.kind != ErrorKind::work_status || entry.value == 0) continue;
    const std::string text = detail::explain_on(
        {}, {.code = Errc::work_failed, .value = static_cast<std::uint64_t>(entry.value)});
    EXPECT_THAT(text, HasSubstr("\n  " + entry.meaning + '\n'));
    for (const auto& cause : entry.causes) EXPECT_THAT(text, HasSubstr("\n  - " + cause));
    EXPECT_THAT(text, HasSubstr("\n  what to do: " + entry.remedy)) << entry.code;
  }
}

TEST(ErrorCatalogue, SaysOfACodeWhatTheGuideSays) {
  for (const ErrorEntry& entry : error_catalogue()) {
    if (entry.kind != ErrorKind::code) continue;
    const ErrorGuide& guide = guide_to(static_cast<Errc>(entry.value));
    EXPECT_EQ(entry.code, guide.identifier);
    EXPECT_EQ(entry.meaning, guide.meaning);
    EXPECT_TRUE(std::ranges::equal(entry.causes, guide.causes())) << entry.code;
    EXPECT_EQ(entry.remedy, guide.remedy);
  }
}

TEST(ErrorCatalogue, AnErrnoHasItsOwnAdviceBeforeThatOfItsCode) {
  const auto found = find_errors("EADDRINUSE");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].meaning, HasSubstr("Errc::busy"));
  ASSERT_FALSE(found[0].causes.empty());
  EXPECT_THAT(found[0].causes.front(), HasSubstr("ss -ltnp"));
  EXPECT_EQ(found[0].causes.back(), guide_to(Errc::busy).causes().back());
}

TEST(ErrorCatalogue, SaysWhatAdviceIsAboutThatIsNotForAll) {
  EXPECT_THAT(find_errors("EROFS").at(0).causes.at(0), testing::StartsWith("soft directory: "));
}

TEST(ErrorCatalogue, FindsEachNameInEachSpelling) {
  for (const char* word : {"peer_lost", "Errc::peer_lost", "verbatim::Errc::peer_lost",
                           "vb::Errc::peer_lost", "PEER_LOST", "peer lost", "peer-lost"})
    EXPECT_THAT(find_errors(word), ElementsAre(is(ErrorKind::code, "peer_lost"))) << word;
  for (const char* word : {"IBV_WC_RETRY_EXC_ERR", "ibv_wc_retry_exc_err", "retry_exceeded",
                           "WorkStatus::retry_exceeded", "transport retry counter exceeded"})
    EXPECT_THAT(find_errors(word), ElementsAre(is(ErrorKind::work_status, "retry_exceeded")))
        << word;
  EXPECT_THAT(find_errors("ENOMEM"), ElementsAre(is(ErrorKind::os_error, "ENOMEM")));
}

TEST(ErrorCatalogue, KnowsTheVerbsNamesOfStatuses) {
  for (const auto& [value, name] :
       {std::pair{IBV_WC_WR_FLUSH_ERR, "IBV_WC_WR_FLUSH_ERR"},
        std::pair{IBV_WC_REM_INV_RD_REQ_ERR, "IBV_WC_REM_INV_RD_REQ_ERR"},
        std::pair{IBV_WC_GENERAL_ERR, "IBV_WC_GENERAL_ERR"}})
    EXPECT_EQ(find_errors(name).at(0).value, value);
}

TEST(ErrorCatalogue, ANumberIsAStatusAndAnErrno) {
  EXPECT_THAT(find_errors("12"), ElementsAre(is(ErrorKind::work_status, "retry_exceeded"),
                                             is(ErrorKind::os_error, "ENOMEM")));
  EXPECT_THAT(find_errors("0xc"), SizeIs(2));
  EXPECT_THAT(find_errors("-12"), ElementsAre(is(ErrorKind::os_error, "ENOMEM")));
  EXPECT_THAT(find_errors("0"), ElementsAre(is(ErrorKind::work_status, "success")));
  EXPECT_THAT(find_errors("110"), ElementsAre(is(ErrorKind::os_error, "ETIMEDOUT")));
}

TEST(ErrorCatalogue, ExplainsAnErrnoOfWhichItKnowsNothingSpecial) {
  EXPECT_THAT(error_catalogue(), Not(Contains(is(ErrorKind::os_error, "EXDEV"))));
  const auto found = find_errors("exdev");
  ASSERT_THAT(found, ElementsAre(is(ErrorKind::os_error, "EXDEV")));
  EXPECT_THAT(found[0].meaning, HasSubstr("Errc::driver"));
}

TEST(ErrorCatalogue, FindsNothingForOtherWords) {
  for (const char* word : {"", "peer", "4000", "-0", "99999999999", "12x", "0x", "::", "Errc::"})
    EXPECT_THAT(find_errors(word), IsEmpty()) << word;
}

TEST(ErrorCatalogue, KnowsNamesThatLookAlike) {
  EXPECT_THAT(near_names("peer_lsot"), Contains("peer_lost"));
  EXPECT_THAT(near_names("IBV_WC_RETRY_EXC"), Contains("IBV_WC_RETRY_EXC_ERR"));
  EXPECT_THAT(near_names("ENOMEN").at(0), "ENOMEM");
  EXPECT_THAT(near_names("timeout"), SizeIs(testing::Le(3u)));
  EXPECT_THAT(near_names("xyzzy-and-nothing-else"), IsEmpty());
}

TEST(ErrorCatalogue, TextReadsLikeExplain) {
  EXPECT_EQ(to_text({.kind = ErrorKind::work_status,
                     .value = 7,
                     .code = "odd",
                     .alias = "IBV_WC_ODD",
                     .name = "odd end",
                     .meaning = "It is odd.",
                     .causes = {"one", "two"},
                     .remedy = "look"}),
            "odd (status 7, IBV_WC_ODD): odd end\n  It is odd.\n  - one\n  - two\n"
            "  what to do: look\n");
}

}  // namespace
}  // namespace verbatim::cli
