// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the DMA model makes each checker notice the misuse of memory in flight that it is said here
//       to notice, and no other.
// Method: each case of cases/ is run in a process of its own, under each checker of this build.
// Covers: base/dma_asan.cpp, base/dma_memcheck.cpp, base/dma_tsan.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <tuple>

#include "misuse/runner.hpp"
#include "misuse/safety_table.hpp"

namespace verbatim::test {
namespace {

/// What the report says, in this order, with anything where "..." is. Empty: the checker does not
/// notice, and the program survives.
struct Expectation {
  std::string_view name;
  std::string_view checked;  // The model's own checks; under Valgrind too.
  std::string_view asan;
  std::string_view tsan;
  std::string_view msan;
  std::string_view valgrind;
};
void PrintTo(const Expectation& row, std::ostream* out) { *out << row.name; }  // For GoogleTest.

constexpr std::string_view kMiss;
constexpr std::string_view kOverlap = "misuse: buffer overlaps an operation in flight";
constexpr std::string_view kModified = "misuse: send buffer was modified while the device was";
constexpr std::string_view kPoisoned =
    "use-after-poison ... that the device writes, posted at ... :\n    #0 ... Nic::receive";
constexpr std::string_view kFreed =
    "memory is freed while the device owns it; freed at: ... free_ ... and posted at ... :\n    #0 "
    "... Nic::";
constexpr std::string_view kReadRace =
    "data race ...   Read of size ... Previous write ... Nic::receive ... 'nic receive'";
constexpr std::string_view kWriteRace =
    "data race ...   Write of size ... Previous write ... Nic::receive ... 'nic receive'";
constexpr std::string_view kSendRace =
    "data race ...   Write of size ... Previous read ... Nic::send ... 'nic send'";
constexpr std::string_view kUnordered =
    "data race ...   Read of size ... Nic::send ... Previous write ... scribble";
constexpr std::string_view kOwnRace =
    "data race ...   Read of size ... use(std::byte ... Previous write ... scribble";
constexpr std::string_view kMoveRace =
    "data race ... vector_grows ... Previous write ... Nic::receive ... 'nic receive'";
constexpr std::string_view kCopyRace =
    "data race ...   Write of size ... mem ... fake_poll_cq ... Previous write ... Nic::receive";
constexpr std::string_view kUndefined = "use-of-uninitialized-value";
constexpr std::string_view kUnsent = "in __msan_check_mem_is_initialized at offset 200 inside";
constexpr std::string_view kInvalidRead = "Invalid read of size";
constexpr std::string_view kInvalidWrite = "Invalid write of size";
constexpr std::string_view kDepends = "depends on uninitialised value ... use(std::byte";
constexpr std::string_view kFound =
    "Uninitialised byte(s) found ... Nic::send ... 200 bytes inside";

// clang-format off
constexpr std::array kExpectations{
  // The columns: checked, asan, tsan, msan, valgrind.
  Expectation{"none",                  kMiss, kMiss, kMiss, kMiss, kMiss},
  Expectation{"none_with_threads",     kMiss, kMiss, kMiss, kMiss, kMiss},
  Expectation{"receive_read",          kMiss, kPoisoned, kReadRace, kUndefined, kInvalidRead},
  Expectation{"receive_write",         kMiss, kPoisoned, kWriteRace, kMiss, kInvalidWrite},
  Expectation{"receive_copy",          kMiss, kPoisoned, kReadRace, kUndefined, kInvalidRead},
  // AddressSanitizer works in words, and errs towards silence.
  Expectation{"receive_last_byte",     kMiss, kMiss, kReadRace, kUndefined, kInvalidRead},
  Expectation{"receive_on_another_thread", kMiss, kPoisoned, kReadRace, kUndefined, kInvalidRead},
  // A fiber is a queue that works in order: what completed later is over, too.
  Expectation{"receive_out_of_order",  kMiss, kPoisoned, kMiss, kUndefined, kInvalidRead},
  Expectation{"receive_out_of_order_slots",
                                       kMiss, kPoisoned, kReadRace, kUndefined, kInvalidRead},
  Expectation{"receive_past_length",   kMiss, kMiss, kMiss, kUndefined, kDepends},
  Expectation{"receive_past_length_scattered", kMiss, kMiss, kMiss, kUndefined, kDepends},
  Expectation{"send_write",            kModified, kMiss, kSendRace, kMiss, kModified},
  Expectation{"send_unordered",        kMiss, kMiss, kUnordered, kMiss, kMiss},
  Expectation{"send_uninitialised",    kMiss, kMiss, kMiss, kUnsent, kFound},
  Expectation{"free_received",         kMiss, kFreed, kWriteRace, kMiss, kMiss},
  Expectation{"free_sent",             kMiss, kFreed, kSendRace, kMiss, kMiss},
  Expectation{"vector_grows",          kMiss, kPoisoned, kMoveRace, kMiss, kInvalidRead},
  Expectation{"overlap_same_queue",    kOverlap, kOverlap, kOverlap, kOverlap, kOverlap},
  Expectation{"overlap_other_queue",   kOverlap, kOverlap, kOverlap, kOverlap, kOverlap},
  Expectation{"provider_copies",       kMiss, kPoisoned, kCopyRace, kMiss, kInvalidWrite},
  Expectation{"handover_unordered",    kMiss, kMiss, kReadRace, kMiss, kMiss},
  Expectation{"lock_orders_nothing",   kMiss, kMiss, kOwnRace, kMiss, kMiss},
};
// clang-format on

std::string_view expected(const Expectation& row, std::string_view checker) {
  if (checker == "asan") return row.asan;
  if (checker == "tsan") return row.tsan;
  if (checker == "msan") return row.msan;
  return checker == "valgrind" ? row.valgrind : row.checked;
}

enum class Suppressions : bool { none, ours };

/// The command that runs a case under a checker.
std::string command(std::string_view name, std::string_view checker, Suppressions suppressions) {
  const std::string file = VERBATIM_SUPPRESSIONS "/" + std::string{checker} + ".supp";
  const bool with = suppressions == Suppressions::ours;
  const std::string options = symbolizer() + (with ? ":suppressions=" + file : "");
  std::string words = "VERBATIM_FAKE_LIBMLX5='" VERBATIM_MISUSE_PROVIDER "'";
  for (const char* const tool : {"ASAN", "TSAN", "MSAN"})
    words.append(" ").append(tool).append("_OPTIONS='").append(options).append("'");
  words += " exec ";
  if (checker == "valgrind") words += kValgrind + (with ? "--suppressions='" + file + "' " : "");
  return words + "'" VERBATIM_MISUSE_PROGRAM "' " + std::string{name};
}

class Misuse : public testing::TestWithParam<std::tuple<Expectation, std::string>> {};

TEST_P(Misuse, IsNoticedWhereTheTableSaysSo) {
  const auto& [row, checker] = GetParam();
  if (checker == "valgrind" && !have_valgrind()) GTEST_SKIP() << kNoValgrind;
  const auto [status, output] = run(command(row.name, checker, Suppressions::none));
  if (const std::string_view report = expected(row, checker); report.empty()) {
    EXPECT_EQ(status, 0) << "noticed, and the table does not say so";
    EXPECT_EQ(output, "survived\n");
  } else {
    EXPECT_NE(status, 0) << "not noticed";
    EXPECT_TRUE(contains(output, report)) << "no \"" << report << "\" in\n" << output;
  }
}

/// A report about the provider's library is not about the program.
TEST(MisuseSuppressions, SilenceWhatProvidersDo) {
  for (const std::string& checker : checkers()) {
    if (checker == "msan" || checker == "checked") continue;  // Silent anyway, says the table.
    if (checker == "valgrind" && !have_valgrind()) GTEST_SKIP() << kNoValgrind;
    const auto [status, output] = run(command("provider_copies", checker, Suppressions::ours));
    EXPECT_EQ(status, 0) << checker;
    EXPECT_EQ(output, "survived\n");
    EXPECT_NE(run(command("receive_read", checker, Suppressions::ours)).status, 0) << checker;
  }
}

TEST(MisuseTable, EveryCaseIsInTheTable) {
  for (const auto& file : std::filesystem::directory_iterator{VERBATIM_MISUSE_CASES})
    EXPECT_EQ(std::ranges::count(kExpectations, file.path().stem().string(), &Expectation::name), 1)
        << file.path();
}

/// MemorySanitizer would need a standard library built for it to run a channel. A case of this
/// table stands for each yes in its column of manual/safety.md.
TEST(MisuseTable, StandsForMemorySanitizerInTheTableOfChannels) {
  for (const SafetyRow& row : read_safety_table(VERBATIM_SAFETY_DOCUMENT)) {
    bool shown = false;
    for (const std::string& name : row.cases) {
      const std::string by = read_expectation(VERBATIM_CHANNEL_CASES "/" + name + ".cpp", "msan");
      const auto found = std::ranges::find(kExpectations, by, &Expectation::name);
      EXPECT_TRUE(by.empty() || found != kExpectations.end()) << name << ": no case " << by;
      shown |= found != kExpectations.end() && !found->msan.empty();
    }
    EXPECT_EQ(shown, row.says("MSan")) << row.misuse;
  }
}

/// receive_read_valgrind
std::string name_of(const testing::TestParamInfo<Misuse::ParamType>& tested) {
  return std::string{std::get<0>(tested.param).name} + '_' + std::get<1>(tested.param);
}

INSTANTIATE_TEST_SUITE_P(Cases, Misuse,
                         testing::Combine(testing::ValuesIn(kExpectations),
                                          testing::ValuesIn(checkers())),
                         name_of);

}  // namespace
}  // namespace verbatim::test
