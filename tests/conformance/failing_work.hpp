// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Work that fails, in each way that any device can show, and in one more that only the
/// software device has.
///
/// Every kind is a write, so that each test is written only once:
///
///      fail_next();                    // at most once, with nothing in flight
///      left.run(failing_write());      // fails with status()
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "conformance/connected_channels.hpp"
#include "support/soft_faults.hpp"

namespace verbatim::test {

enum class FailureKind : std::uint8_t {
  remote_access,  ///< The peer refuses, because it never published such a key.
  not_ready,      ///< The peer has no receive until the retries are over.
  lost_peer,      ///< The peer is gone until the retries are over.
  injected,       ///< By a FaultPlan.
};

class FailingWork : public ChannelsAndMemory, public testing::WithParamInterface<FailureKind> {
 public:
  static std::string name(const testing::TestParamInfo<FailureKind>& info) {
    switch (info.param) {
      case FailureKind::remote_access: return "RemoteAccess";
      case FailureKind::not_ready: return "ReceiverNotReady";
      case FailureKind::lost_peer: return "LostPeer";
      case FailureKind::injected: return "Injected";
    }
    return "";
  }

 protected:
  FailingWork() : ChannelsAndMemory(few_retries()) {}
  /// Only a peer that is gone is given up soon. One that lives may be held up.
  [[nodiscard]] static ChannelOptions few_retries() {
    const std::chrono::milliseconds answer{GetParam() == FailureKind::lost_peer ? 8 : 1000};
    return {.ack_timeout = require(AckTimeout::at_least(answer)),
            .max_ack_retries = require(MaxAckRetries::limited(2)),
            .max_rnr_retries = require(MaxRnrRetries::limited(1))};
  }
  void SetUp() override {
    if (GetParam() == FailureKind::injected && !on_soft_device())
      GTEST_SKIP() << "the device has no fault plans";
  }

  /// From now on failing_write() fails if it is the next request that is posted.
  void fail_next() {
    if (GetParam() == FailureKind::injected)
      faults.emplace(soft::FaultPlan{}.fail(1, WorkStatus::remote_operation));
    if (GetParam() == FailureKind::lost_peer) {
      const Channel gone = std::move(right);
    }
  }
  [[nodiscard]] Write<1> failing_write() {
    Write<1> work{piece(0), window.remote()};
    if (GetParam() == FailureKind::remote_access)
      work.to = RemoteMemoryRegion{.address = 4096, .length = 64, .key = RemoteKey{0x7fffff01}};
    if (GetParam() == FailureKind::not_ready) work.options.immediate = 1;
    return work;
  }
  /// Succeeds, unless something before it failed.
  [[nodiscard]] Write<1> good_write() { return {piece(1), window.remote()}; }
  [[nodiscard]] WorkStatus status() const {
    switch (GetParam()) {
      case FailureKind::remote_access: return WorkStatus::remote_access;
      case FailureKind::not_ready: return WorkStatus::rnr_retry_exceeded;
      case FailureKind::lost_peer: return WorkStatus::retry_exceeded;
      case FailureKind::injected: return WorkStatus::remote_operation;
    }
    return WorkStatus::success;
  }
  /// Whether this is the failure itself, or another error caused by it.
  [[nodiscard]] testing::AssertionResult tells(const Error& error) const {
    if (error == Errc::work_failed && error.value == static_cast<std::uint64_t>(status()))
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << to_string(error);
  }
  template <class T>
  [[nodiscard]] testing::AssertionResult tells(const Result<T>& result) const {
    if (result) return testing::AssertionFailure() << "succeeded";
    return tells(result.error());
  }

  SharedRegion window = require(domain.allocate_shared(kPiece, Access::remote_write));
  std::optional<Faults> faults{};
};

#define VERBATIM_EACH_FAILURE(Suite)                                                           \
  INSTANTIATE_TEST_SUITE_P(Each, Suite,                                                        \
                           testing::Values(FailureKind::remote_access, FailureKind::not_ready, \
                                           FailureKind::lost_peer, FailureKind::injected),     \
                           FailingWork::name)

}  // namespace verbatim::test
