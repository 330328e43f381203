// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/requester/retry.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "soft/faults/hook.hpp"
#include "soft/requester/execute.hpp"
#include "soft/requester/fast_path.hpp"
#include "soft/shared/changes.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

constexpr std::uint64_t kReadyPollNs = 200'000;  // How often to check for the peer.

/// The wire codes of the "no receive posted" timer, in microseconds.
constexpr std::uint32_t kRnrTimerUs[32] = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

/// How long to wait for an answer; 0: for ever.
std::uint64_t ack_timeout_ns(const QueuePair& queue_pair) noexcept {
  const std::uint32_t code = queue_pair.attributes.timeout;
  return code != 0 ? std::uint64_t{4096} << code : 0;
}

/// Counts an attempt without an answer. False: it was the last one.
bool may_lose_again(const QueuePair& queue_pair, Waiting& waiting) noexcept {
  return waiting.losses++ < queue_pair.attributes.retry_cnt;
}

/// Decides about a request that cannot finish now: sets when to try again, or returns the error it
/// ends with. `now` is the time that play() used, because both must agree on whether this was an
/// attempt.
ibv_wc_status postpone(const QueuePair& queue_pair, Waiting& waiting, const Outcome& outcome,
                       std::uint64_t now) noexcept {
  if (outcome.verdict == Verdict::no_receive) {
    if (waiting.due_ns != 0 && now < waiting.due_ns) return IBV_WC_SUCCESS;  // Woken early.
    const unsigned allowed = queue_pair.attributes.rnr_retry;
    if (allowed != 7 && waiting.rnr_attempts >= allowed) return IBV_WC_RNR_RETRY_EXC_ERR;
    ++waiting.rnr_attempts;
    waiting.due_ns = now + std::uint64_t{kRnrTimerUs[outcome.rnr_timer & 31]} * 1000;
    waiting.ack_due_ns = 0;
    waiting.losses = 0;
    return IBV_WC_SUCCESS;
  }
  waiting.due_ns = now + kReadyPollNs;
  const std::uint64_t timeout = ack_timeout_ns(queue_pair);
  if (timeout == 0) return IBV_WC_SUCCESS;
  // Counts what runs out, and not the time in all: the process itself may have been held up.
  if (waiting.ack_due_ns == 0) {
    waiting.ack_due_ns = now + timeout;
  } else if (now >= waiting.ack_due_ns) {
    if (!may_lose_again(queue_pair, waiting)) return IBV_WC_RETRY_EXC_ERR;
    waiting.ack_due_ns = now + timeout;
  }
  waiting.due_ns = std::min(waiting.due_ns, waiting.ack_due_ns);
  return IBV_WC_SUCCESS;
}

/// Plays the script of a waiting request: returns an outcome in place of the real one, or nothing.
std::optional<Outcome> play(const QueuePair& queue_pair, Waiting& waiting,
                            std::uint64_t now) noexcept {
  Script& script = waiting.script;
  if (script.status != 0) return done(static_cast<ibv_wc_status>(script.status));
  if (script.drops > 0) {
    --script.drops;
    if (queue_pair.raw.qp_type != IBV_QPT_RC) return done(IBV_WC_SUCCESS);  // Lost without notice.
    const std::uint64_t timeout = ack_timeout_ns(queue_pair);
    if (timeout != 0 && !may_lose_again(queue_pair, waiting)) return done(IBV_WC_RETRY_EXC_ERR);
    // Without a timer the loss goes unnoticed. The request and everything behind it stay
    // outstanding until the queue pair leaves RTS.
    script.not_before_ns = timeout != 0 ? now + timeout : ~std::uint64_t{0};
    return not_ready();
  }
  if (script.no_receives > 0) {
    if (now >= waiting.due_ns) --script.no_receives;  // A poll in between is no attempt.
    return Outcome{Verdict::no_receive, IBV_WC_GENERAL_ERR, 0, 1};
  }
  if (const std::uint64_t until = port_down_until(); until > now) return not_ready();
  return std::nullopt;
}

}  // namespace

void complete(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number,
              ibv_wc_status status, std::uint32_t bytes) noexcept {
  if (status == IBV_WC_SUCCESS && !is_told(queue_pair, request)) return;
  push_send(queue_pair, request, number, status, bytes);
}

Waiting& keep(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number) noexcept {
  const std::uint32_t place = queue_pair.waiting_tail++ & (queue_pair.waiting_capacity - 1);
  Waiting& waiting = queue_pair.waiting[place];
  queue_pair.known.forget();  // Nothing overtakes requests that wait.
  waiting.request = request;
  waiting.request.next = nullptr;
  waiting.request.sg_list = waiting.elements;
  waiting.number = number;
  waiting.rnr_attempts = 0;
  waiting.losses = 0;
  waiting.due_ns = 0;
  waiting.ack_due_ns = 0;
  waiting.script = {};
  std::copy_n(request.sg_list, static_cast<std::size_t>(request.num_sge), waiting.elements);
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    std::byte* const data =
        queue_pair.inline_data.get() + std::size_t{place} * queue_pair.limits.max_inline_data;
    std::size_t used = 0;
    for (int i = 0; i < request.num_sge; ++i) {
      const ibv_sge& element = request.sg_list[i];
      std::memcpy(data + used, reinterpret_cast<const void*>(element.addr), element.length);
      used += element.length;
    }
    waiting.request.num_sge = 1;
    waiting.elements[0] = {reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint32_t>(used),
                           0};
  }
  return waiting;
}

bool start_scripted(QueuePair& queue_pair, const ibv_send_wr& request,
                    std::uint32_t number) noexcept {
  const Script script = next_operation();
  if (script.port_down_ns != 0) {
    // In this order, so that its end is not told before its beginning.
    queue_pair.context->cries.fetch_or(cry_port_down);
    take_port_down(now_ns() + script.port_down_ns);
    queue_pair.engine->call_own_attention();
  }
  if (script.overrun) overrun_queue(*queue_pair.send_completions);
  if (script.remove_device) {
    queue_pair.context->removed.store(true);
    own_changes.fetch_add(1);
    queue_pair.context->cries.fetch_or(cry_removed);
    queue_pair.engine->call_own_attention();
  }
  Waiting& waiting = keep(queue_pair, request, number);
  waiting.script = script;
  queue_pair.engine->wait_for(queue_pair, script.not_before_ns);
  return false;
}

bool start_later(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number,
                 const Outcome& outcome) noexcept {
  Waiting& waiting = keep(queue_pair, request, number);
  const ibv_wc_status failed = postpone(queue_pair, waiting, outcome, now_ns());
  if (failed == IBV_WC_SUCCESS) {
    queue_pair.engine->wait_for(queue_pair, waiting.due_ns);
    return false;
  }
  --queue_pair.waiting_tail;
  return fail(queue_pair, waiting.request, number, done(failed));
}

void tell_if_drained(QueuePair& queue_pair) noexcept {
  if (!queue_pair.tell_drained || queue_pair.state() != IBV_QPS_SQD ||
      queue_pair.waiting_head != queue_pair.drain_until)
    return;
  queue_pair.tell_drained = false;
  queue_pair.drained.store(true);
  queue_pair.engine->call_own_attention();
}

std::uint64_t retry(QueuePair& queue_pair) noexcept {
  // The thread that holds this lock is posting, and may be in a long copy. A poller does not wait
  // for it.
  const std::unique_lock lock{queue_pair.lock, std::try_to_lock};
  if (!lock) return now_ns() + kBusyNs;
  while (queue_pair.has_runnable()) {
    Waiting& waiting =
        queue_pair.waiting[queue_pair.waiting_head & (queue_pair.waiting_capacity - 1)];
    const std::uint64_t now = now_ns();
    if (waiting.script.not_before_ns > now) return waiting.script.not_before_ns;
    const auto played = play(queue_pair, waiting, now);
    // The wire lost it. Only the number of losses ends that: the process may have been held up.
    if (waiting.script.not_before_ns > now) return waiting.script.not_before_ns;
    Visit visit{queue_pair.route};
    Outcome outcome = played ? *played : execute(queue_pair, waiting.request, visit);
    if (outcome.verdict != Verdict::done) {
      outcome = done(postpone(queue_pair, waiting, outcome, now));
      if (outcome.status == IBV_WC_SUCCESS) return waiting.due_ns;
    }
    ++queue_pair.waiting_head;
    if (outcome.status == IBV_WC_SUCCESS)
      complete(queue_pair, waiting.request, waiting.number, IBV_WC_SUCCESS, outcome.byte_count);
    else
      fail(queue_pair, waiting.request, waiting.number, outcome);
  }
  tell_if_drained(queue_pair);
  return 0;
}

bool fail(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number,
          const Outcome& outcome) noexcept {
  // The state first: a thread that polls the failure may ask for the next state at once.
  const bool breaks = queue_pair.raw.qp_type == IBV_QPT_RC;
  if (breaks)
    queue_pair.break_later();
  else
    queue_pair.set_state(IBV_QPS_SQE);
  complete(queue_pair, request, number, outcome.status, outcome.byte_count);
  if (!breaks) flush_waiting(queue_pair);
  return breaks;
}

void flush_waiting(QueuePair& queue_pair) noexcept {
  while (queue_pair.has_waiting()) {
    const Waiting& waiting =
        queue_pair.waiting[queue_pair.waiting_head++ & (queue_pair.waiting_capacity - 1)];
    // A flushed request always completes, signaled or not.
    complete(queue_pair, waiting.request, waiting.number, IBV_WC_WR_FLUSH_ERR, 0);
  }
}

void flush_sends(QueuePair& queue_pair) noexcept {
  const std::lock_guard lock{queue_pair.lock};
  flush_waiting(queue_pair);
}

}  // namespace verbatim::engine
