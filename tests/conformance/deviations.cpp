// SPDX-License-Identifier: MIT OR Apache-2.0
#include "conformance/deviations.hpp"

#include <fnmatch.h>
#include <gtest/gtest-spi.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace verbatim::test {

namespace {

// rxe is the kernel's Soft-RoCE. Each row was observed; the reasons are our interpretation.
constexpr std::array kDeviations{
    Deviation{"LostPeer.EndsAlsoSevenRetries", "rxe*", "6.1.*", "the device still tries",
              "rxe takes 7 acknowledgement retries for \"without end\", as it is for RNR retries"},
    Deviation{"Receive.TooSmallForTheMessageFailsOnBothSides", "rxe*", "6.1.*",
              "Which is: local queue pair operation error",
              "rxe calls a receive that is too small a malformed request, not a length error"},
    Deviation{"Owners.MessageWithDataFailsWhereAReceiveHasNoMemory", "rxe*", "6.1.*", "Which is: 2",
              "rxe calls a receive that is too small a malformed request, not a length error"},
    Deviation{"Places/RepeatedSends.OneThatDoesNotFitBreaksBothSides/*", "rxe*", "6.1.*",
              "Which is: 2",
              "rxe calls a receive that is too small a malformed request, not a length error"},
    Deviation{"Places/RepeatedSends.OneIntoARegionThatEndedWritesNothing/*", "rxe*", "6.1.*",
              "Which is: 2",
              "rxe does not tell a wrong key from other local failures when it receives"},
    Deviation{"OtherDomain.MemoryCannotBeSentFrom", "rxe*", "6.1.*",
              "Which is: local queue pair operation error",
              "rxe does not tell a wrong key from other local failures when it sends"},
    Deviation{"OtherDomain.MemoryCannotBeReceivedInto", "rxe*", "6.1.*",
              "Which is: local queue pair operation error",
              "rxe does not tell a wrong key from other local failures when it receives"},
    Deviation{"AfterAnError.ReceiveIsFlushedOrRefused", "rxe*", "6.1.*",
              "the receive did not come back",
              "posting a receive does not reach rxe's kernel part, which is asleep after an error"},
    Deviation{"AccessError.IsToldToTheSideThatWasAccessed", "rxe*", "6.1.*",
              "no event at the side that was accessed", "rxe raises no queue pair error events"},
    Deviation{"SharedReceive.TellsWhenABrokenQueuePairHasTakenItsLast", "rxe*", "6.1.*",
              "no event last_receive_reached", "rxe never raises last_receive_reached"},
    Deviation{"Peers/SleepingOwner.HearsThatABrokenQueuePairHasTakenItsLastReceive/*", "rxe*",
              "6.1.*", "the owner was not woken", "rxe never raises last_receive_reached"},
    Deviation{"Peers/SleepingOwner.HearsThatCommunicationIsEstablished/*", "rxe*", "6.1.*",
              "the owner was not woken", "rxe never raises communication_established"},
    Deviation{"SleepingOwnerOfTwo.HearsThatABusySendQueueIsDrained", "rxe*", "6.1.*",
              "drained, but the request is not over",
              "rxe calls a send queue drained while its request waits for a receive, and stops it"},
    Deviation{"Address.OfADatagramWithAnotherGidDeliversNothing", "rxe*", "6.1.*",
              "the lost one arrived", "rxe compares the addresses of connections only"},
    Deviation{"Kinds/ReadsInFlight.NoneAllowedToTheRequesterFailThere/*", "rxe*", "6.1.*",
              "no completion",
              "rxe waits for ever for one of the reads in flight, of which it has 0"},
};

std::string full_name(const testing::TestInfo& test) {
  return std::string{test.test_suite_name()} + '.' + test.name();
}

bool matches(const char* pattern, const std::string& text) {
  return fnmatch(pattern, text.c_str(), 0) == 0;
}

/// Intercepts the failures of a listed test, and judges them at its end.
class DeviationListener : public testing::EmptyTestEventListener {
 public:
  DeviationListener(std::string device, std::string kernel)
      : device_(std::move(device)), kernel_(std::move(kernel)) {}

  void OnTestStart(const testing::TestInfo& test) override {
    const auto found = std::ranges::find_if(kDeviations, [&](const Deviation& row) {
      return matches(row.test, full_name(test)) && matches(row.device, device_) &&
             matches(row.kernel, kernel_);
    });
    if (found == kDeviations.end()) return;
    row_ = &*found;
    parts_.emplace();
    interceptor_.emplace(testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS,
                         &*parts_);
  }

  // Called before the printer's OnTestEnd, so what is added here becomes part of the test's result.
  void OnTestEnd(const testing::TestInfo&) override {
    if (row_ == nullptr) return;
    const Deviation& row = *std::exchange(row_, nullptr);
    interceptor_.reset();
    bool failed = false;
    std::string text;
    for (int i = 0; i < parts_->size(); ++i) {
      const testing::TestPartResult& part = parts_->GetTestPartResult(i);
      if (!part.failed()) continue;
      failed = true;
      text += part.message();
      text += '\n';
    }
    if (failed && text.find(row.symptom) != std::string::npos)
      GTEST_SKIP() << "known deviation: " << row.reason;
    ADD_FAILURE() << "the table of deviations is stale: " << row.test << " should fail on "
                  << row.device << " with kernel " << row.kernel << " (\"" << row.symptom
                  << "\"), but it " << (failed ? "failed with:\n" + text : "did not fail");
  }

 private:
  const std::string device_;
  const std::string kernel_;
  const Deviation* row_ = nullptr;
  std::optional<testing::TestPartResultArray> parts_;
  std::optional<testing::ScopedFakeTestPartResultReporter> interceptor_;
};

}  // namespace

std::span<const Deviation> known_deviations() { return kDeviations; }

std::unique_ptr<testing::TestEventListener> make_deviation_listener(std::string device,
                                                                    std::string kernel) {
  return std::make_unique<DeviationListener>(std::move(device), std::move(kernel));
}

std::string rows_without_test() {
  std::string missing;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (const Deviation& row : kDeviations) {
    bool found = false;
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
      const testing::TestSuite& suite = *all.GetTestSuite(i);
      for (int j = 0; j < suite.total_test_count(); ++j)
        found = found || matches(row.test, full_name(*suite.GetTestInfo(j)));
    }
    if (!found) (missing += row.test) += '\n';
  }
  return missing;
}

}  // namespace verbatim::test
