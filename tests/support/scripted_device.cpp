// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/scripted_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

Script* active = nullptr;

void come_back(std::uint64_t id, bool marker) {
  if (active->flushes && (marker || !active->flushes_only_markers))
    active->complete(id, IBV_WC_WR_FLUSH_ERR);
}

int post_send(ibv_qp*, ibv_send_wr* wr, ibv_send_wr** rejected) {
  const bool marker = active->state == IBV_QPS_ERR;
  for (; wr != nullptr; wr = wr->next) {
    int refusal = marker ? active->send_marker_refusal : active->send_refusal;
    if (!marker && active->accepted_sends > 0) {
      --active->accepted_sends;
      refusal = 0;
    }
    if (refusal != 0) {
      if (active->name_rejected) *rejected = wr;
      return refusal;
    }
    active->sends.push_back({wr->wr_id, wr->num_sge, active->state, wr->send_flags, wr->opcode});
    if (marker) come_back(wr->wr_id, true);
  }
  return 0;
}

int post_receive(ibv_qp*, ibv_recv_wr* wr, ibv_recv_wr** rejected) {
  const bool marker = active->state == IBV_QPS_ERR;
  ++active->receive_calls;
  for (; wr != nullptr; wr = wr->next) {
    int refusal = marker ? active->receive_marker_refusal : active->receive_refusal;
    if (!marker && active->accepted_receives > 0) {
      --active->accepted_receives;
      refusal = 0;
    }
    if (refusal != 0) {
      if (active->name_rejected) *rejected = wr;
      return refusal;
    }
    active->receives.push_back({wr->wr_id, wr->num_sge, active->state});
    if (marker && !active->flushes_at_the_transition) come_back(wr->wr_id, true);
  }
  return 0;
}

int poll(ibv_cq*, int room, ibv_wc* out) {
  ++active->polls;
  if (active->poll_result < 0) return active->poll_result;
  if (active->empty_polls > 0 || active->completions.empty()) {
    if (active->empty_polls > 0) --active->empty_polls;
    if (active->on_empty) active->on_empty();
    return 0;
  }
  int count = 0;
  for (; count < room && !active->completions.empty(); ++count) {
    out[count] = active->completions.front();
    active->completions.pop_front();
  }
  return count;
}

int modify(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
  const bool to_error = (mask & IBV_QP_STATE) != 0 && attributes->qp_state == IBV_QPS_ERR;
  if (to_error && active->state == IBV_QPS_ERR) {
    if (active->flushes_at_the_transition) come_back(active->receives.back().id, true);
    return 0;
  }
  if (to_error) {
    ++active->errors;
    if (active->error_refusal != 0) return active->error_refusal;
  }
  const int failed = verbatim_null_provider()->modify_qp(queue_pair, attributes, mask);
  if (failed == 0 && (mask & IBV_QP_STATE) != 0) active->state = attributes->qp_state;
  if (failed == 0 && to_error) {
    for (const auto* const requests : {&active->sends, &active->receives})
      for (const auto& each : *requests)
        if (each.state != IBV_QPS_ERR) come_back(each.id, false);
  }
  return failed;
}

int destroy(ibv_qp* queue_pair) {
  ++active->destroys;
  if (active->destroy_refusal != 0) return active->destroy_refusal;
  return verbatim_null_provider()->destroy_qp(queue_pair);
}

}  // namespace

void Script::complete(std::uint64_t id, ibv_wc_status status, ibv_wc_opcode opcode) {
  ibv_wc wc{};
  wc.wr_id = id;
  wc.status = status;
  wc.opcode = opcode;
  completions.push_back(wc);
}

void Script::complete_all(const std::vector<Request>& requests, ibv_wc_status status) {
  for (const Request& each : requests) complete(each.id, status);
}

ScriptedDevice::ScriptedDevice() {
  active = &script;
  table.modify_qp = &modify;
  table.destroy_qp = &destroy;
}

void ScriptedDevice::TearDown() {
  channel_.reset();
  domain_.reset();
  NullDevice::TearDown();
  active = nullptr;
}

PreparedChannel ScriptedDevice::prepare(const ChannelOptions& options) {
  channel_.reset();
  const Context context = open();
  ibv_context_ops& ops = unsafe::native(context)->ops;
  ops.post_send = &post_send;
  ops.post_recv = &post_receive;
  ops.poll_cq = &poll;
  domain_ = require(context.allocate_domain());
  return require(PreparedChannel::create(*domain_, options));
}

Channel ScriptedDevice::connect(PreparedChannel prepared) {
  const Endpoint self = prepared.endpoint();
  return require(std::move(prepared).connect(self));
}

Channel& ScriptedDevice::open_channel(const ChannelOptions& options) {
  channel_.emplace(connect(prepare(options)));
  return *channel_;
}

void in_child(const std::function<void()>& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        body();
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace verbatim::test
