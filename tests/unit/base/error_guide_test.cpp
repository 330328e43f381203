// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every code and every status has a complete entry, written in one style.
#include "verbatim/base/error_guide.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <utility>

namespace verbatim {
namespace {

bool is_identifier(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return islower(c) || c == '_'; });
}

/// Causes and remedies are parts of a sentence.
void expect_phrase(std::string_view phrase) {
  EXPECT_FALSE(phrase.ends_with('.')) << phrase;
  EXPECT_FALSE(isupper(phrase.front()) && islower(phrase[1])) << phrase;
}

void expect_style(const ErrorGuide& guide) {
  EXPECT_TRUE(is_identifier(guide.identifier)) << guide.identifier;
  EXPECT_FALSE(guide.name.empty()) << guide.identifier;
  EXPECT_TRUE(guide.meaning.ends_with('.')) << guide.identifier;
  EXPECT_TRUE(isupper(guide.meaning.front())) << guide.identifier;
  for (const auto cause : guide.causes()) expect_phrase(cause);
  EXPECT_EQ(guide.causes().empty(), guide.remedy.empty()) << guide.identifier;
  if (!guide.remedy.empty()) expect_phrase(guide.remedy);
}

TEST(ErrorGuide, HasEveryCode) {
  std::set<std::string_view> identifiers;
  ASSERT_EQ(guide_to_codes().size(), std::to_underlying(Errc::driver) + 1u);
  for (const ErrorGuide& guide : guide_to_codes()) {
    expect_style(guide);
    EXPECT_FALSE(guide.causes().empty()) << guide.identifier;
    EXPECT_TRUE(identifiers.insert(guide.identifier).second) << guide.identifier;
  }
}

TEST(ErrorGuide, HasEveryStatus) {
  std::set<std::string_view> identifiers;
  for (const ErrorGuide& guide : guide_to_statuses()) {
    expect_style(guide);
    EXPECT_TRUE(identifiers.insert(guide.identifier).second) << guide.identifier;
  }
}

TEST(ErrorGuide, EntriesAreAtTheirPlaces) {
  EXPECT_EQ(guide_to(Errc::invalid_argument).identifier, "invalid_argument");
  EXPECT_EQ(guide_to(Errc::would_block).identifier, "would_block");
  EXPECT_EQ(guide_to(Errc::work_failed).identifier, "work_failed");
  EXPECT_EQ(guide_to(Errc::driver).identifier, "driver");
  EXPECT_EQ(guide_to(WorkStatus::success).identifier, "success");
  EXPECT_EQ(guide_to(WorkStatus::flushed).identifier, "flushed");
  EXPECT_EQ(guide_to(WorkStatus::retry_exceeded).identifier, "retry_exceeded");
  EXPECT_EQ(guide_to(WorkStatus::fatal).identifier, "fatal");
  EXPECT_EQ(guide_to(WorkStatus::tag_matching).identifier, "tag_matching");
}

TEST(ErrorGuide, UnknownNumberHasAnEmptyEntry) {
  EXPECT_TRUE(guide_to(static_cast<Errc>(200)).causes().empty());
  EXPECT_EQ(guide_to(static_cast<WorkStatus>(200)).name, "unknown status");
}

TEST(ErrorGuide, FailedWorkHasTwoThingsToDo) {
  EXPECT_EQ(remedy_of(WorkStatus::success), "");
  const std::string both = remedy_of(WorkStatus::remote_aborted);
  EXPECT_TRUE(both.starts_with("check the peer; then ")) << both;
  EXPECT_TRUE(both.ends_with(guide_to(Errc::work_failed).remedy)) << both;
  // For a status without its own remedy, and for an unknown one.
  EXPECT_EQ(remedy_of(WorkStatus::tag_matching), guide_to(Errc::work_failed).remedy);
  EXPECT_EQ(remedy_of(static_cast<WorkStatus>(200)), guide_to(Errc::work_failed).remedy);
}

TEST(ErrorGuide, CausesEndAtTheFirstEmptyOne) {
  EXPECT_EQ((ErrorGuide{"a", "b", "C.", {"one", "two"}}.causes().size()), 2u);
  EXPECT_EQ((ErrorGuide{"a", "b", "C.", {"1", "2", "3", "4"}}.causes().size()), 4u);
  EXPECT_TRUE((ErrorGuide{"a", "b", "C."}.causes().empty()));
}

}  // namespace
}  // namespace verbatim
