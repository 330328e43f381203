// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A device that a test controls: it keeps every request until the test completes it, and
/// each step of stopping it can be made to fail.
///
/// It is the null device with its data verbs and two control verbs replaced. Only one at a time,
/// because verbs are plain functions. Threads: one.
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "support/null_device.hpp"
#include "verbatim/channel/channel.hpp"

namespace verbatim::test {

/// What the device got, and how it answers.
struct Script {
  struct Request {
    std::uint64_t id;
    int elements;
    ibv_qp_state state;
    unsigned flags = 0;  ///< Of a send, as the opcode.
    ibv_wr_opcode opcode = IBV_WR_SEND;
  };
  std::vector<Request> sends{};
  std::vector<Request> receives{};
  std::deque<ibv_wc> completions{};  ///< To be polled.

  int send_refusal = 0;  ///< An errno for every send; 0: taken.
  /// How many sends are taken before `send_refusal` counts.
  std::size_t accepted_sends = 0;
  bool name_rejected = true;
  int receive_refusal = 0;
  std::size_t accepted_receives = 0;  ///< Before `receive_refusal` counts.
  int send_marker_refusal = 0;        ///< For sends in the error state.
  int receive_marker_refusal = 0;
  int error_refusal = 0;    ///< For the move to the error state.
  int destroy_refusal = 0;  ///< The queue pair then stays.
  bool flushes = true;      ///< Whether requests in the error state come back.
  bool flushes_only_markers = false;
  bool flushes_at_the_transition = false;  ///< A receive in ERR waits for the next transition.
  int poll_result = 0;                     ///< Below 0: the result of every poll.
  std::size_t empty_polls = 0;             ///< How many polls find nothing first.
  std::function<void()> on_empty{};        ///< Called by a poll that finds nothing.

  std::size_t polls = 0;
  std::size_t receive_calls = 0;  ///< Doorbells.
  std::size_t errors = 0;         ///< Moves to the error state from another one.
  std::size_t destroys = 0;       ///< Attempts.
  ibv_qp_state state = IBV_QPS_RESET;

  void complete(std::uint64_t id, ibv_wc_status status = IBV_WC_SUCCESS,
                ibv_wc_opcode opcode = IBV_WC_SEND);
  void complete_all(const std::vector<Request>& requests, ibv_wc_status status = IBV_WC_SUCCESS);
};

class ScriptedDevice : public NullDevice {
 protected:
  ScriptedDevice();
  void TearDown() override;

  /// A channel that is connected to itself. Also opens the device again, each time.
  Channel& open_channel(const ChannelOptions& options = {});
  [[nodiscard]] PreparedChannel prepare(const ChannelOptions& options = {});
  /// Releases everything. A test that has its own handles calls it before it ends.
  void close_channel() { channel_.reset(); }
  [[nodiscard]] Channel& channel() { return *channel_; }
  [[nodiscard]] ProtectionDomain& domain() { return *domain_; }
  [[nodiscard]] Buffer buffer(std::size_t bytes = 64) { return require(domain_->allocate(bytes)); }
  [[nodiscard]] static Channel connect(PreparedChannel prepared);

  Script script;

 private:
  std::optional<ProtectionDomain> domain_;
  std::optional<Channel> channel_;
};

/// Runs `body` in a separate process, which may leave anything behind. Its failures are ours.
void in_child(const std::function<void()>& body);

}  // namespace verbatim::test
