// SPDX-License-Identifier: MIT OR Apache-2.0
// ibv_post_send, and the requests that could not finish at once.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "soft/completion.hpp"
#include "soft/engine.hpp"
#include "soft/events.hpp"
#include "soft/express.hpp"
#include "soft/queue_pair.hpp"
#include "soft/requester.hpp"
#include "soft/visit.hpp"

namespace verbatim::engine {
namespace {

constexpr std::uint64_t kBusyNs = 20'000;
constexpr std::uint64_t kReadyPollNs = 200'000;  // How often to look whether a peer is there.

/// The wire's codes for "no receive posted", in microseconds.
constexpr std::uint32_t kRnrTimerUs[32] = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

/// Writes the sender's completion, if there is to be one.
void complete(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number,
              ibv_wc_status status, std::uint32_t bytes) noexcept {
  if (status == IBV_WC_SUCCESS && !is_told(queue_pair, request)) return;
  push_send(queue_pair, request, number, status, bytes);
}

/// Whether every place of the send queue is taken.
[[nodiscard]] bool is_full(QueuePair& queue_pair) noexcept {
  if (queue_pair.posted != queue_pair.full_at) [[likely]]
    return false;
  // As far as was known; the poller may have freed some since.
  queue_pair.full_at =
      queue_pair.retired.load(std::memory_order_acquire) + queue_pair.limits.max_send_wr;
  return queue_pair.posted == queue_pair.full_at;
}

constexpr unsigned bit(ibv_wr_opcode opcode) noexcept { return 1u << opcode; }
constexpr unsigned kSends = bit(IBV_WR_SEND) | bit(IBV_WR_SEND_WITH_IMM);
constexpr unsigned kWrites = bit(IBV_WR_RDMA_WRITE) | bit(IBV_WR_RDMA_WRITE_WITH_IMM);
constexpr unsigned kReads =
    bit(IBV_WR_RDMA_READ) | bit(IBV_WR_ATOMIC_CMP_AND_SWP) | bit(IBV_WR_ATOMIC_FETCH_AND_ADD);

constexpr unsigned allowed_opcodes(ibv_qp_type type) noexcept {
  if (type == IBV_QPT_RC) return kSends | kWrites | kReads;
  return type == IBV_QPT_UD ? kSends : kSends | kWrites;
}

[[gnu::cold]] int check_inline(const QueuePair& queue_pair, const ibv_send_wr& request) noexcept {
  if ((bit(request.opcode) & kReads) != 0) return EINVAL;
  std::uint64_t bytes = 0;
  for (int i = 0; i < request.num_sge; ++i) bytes += request.sg_list[i].length;
  return bytes > queue_pair.limits.max_inline_data ? EINVAL : 0;
}

int check_request(const QueuePair& queue_pair, const ibv_send_wr& request) noexcept {
  // A negative count is a large one.
  if (static_cast<std::uint32_t>(request.num_sge) > queue_pair.limits.max_send_sge) return EINVAL;
  const unsigned opcode = request.opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD ? bit(request.opcode) : 0;
  if ((opcode & allowed_opcodes(queue_pair.raw.qp_type)) == 0) [[unlikely]]
    return (opcode & (kSends | kWrites | kReads)) != 0 ? EINVAL : EOPNOTSUPP;
  if (queue_pair.raw.qp_type == IBV_QPT_UD && request.wr.ud.ah == nullptr) return EINVAL;
  return (request.send_flags & IBV_SEND_INLINE) != 0 ? check_inline(queue_pair, request) : 0;
}

/// Keeps a request for later: its elements, and inline data by value, as the caller may reuse both.
Waiting& keep(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number) noexcept {
  const std::uint32_t place = queue_pair.waiting_tail++ & (queue_pair.waiting_capacity - 1);
  Waiting& waiting = queue_pair.waiting[place];
  queue_pair.known.forget();  // Nothing overtakes what waits.
  waiting.request = request;
  waiting.request.next = nullptr;
  waiting.request.sg_list = waiting.elements;
  waiting.number = number;
  waiting.rnr_attempts = 0;
  waiting.losses = 0;
  waiting.due_ns = 0;
  waiting.give_up_ns = 0;
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

/// What to do with a request that cannot finish now: when to try again, or the error it ends with.
ibv_wc_status postpone(const QueuePair& queue_pair, Waiting& waiting,
                       const Outcome& outcome) noexcept {
  const std::uint64_t now = now_ns();
  if (outcome.verdict == Verdict::no_receive) {
    if (waiting.due_ns != 0 && now < waiting.due_ns) return IBV_WC_SUCCESS;  // Woken early.
    const unsigned allowed = queue_pair.attributes.rnr_retry;
    if (allowed != 7 && waiting.rnr_attempts > allowed) return IBV_WC_RNR_RETRY_EXC_ERR;
    ++waiting.rnr_attempts;
    waiting.due_ns = now + std::uint64_t{kRnrTimerUs[outcome.rnr_timer & 31]} * 1000;
    waiting.give_up_ns = 0;
    return IBV_WC_SUCCESS;
  }
  const std::uint32_t code = queue_pair.attributes.timeout;
  if (waiting.give_up_ns == 0 && code != 0)
    waiting.give_up_ns =
        now + (std::uint64_t{4096} << code) * (queue_pair.attributes.retry_cnt + 1u);
  if (waiting.give_up_ns != 0 && now >= waiting.give_up_ns) return IBV_WC_RETRY_EXC_ERR;
  waiting.due_ns = now + kReadyPollNs;
  if (waiting.give_up_ns != 0) waiting.due_ns = std::min(waiting.due_ns, waiting.give_up_ns);
  return IBV_WC_SUCCESS;
}

/// On an unusual day every request waits, if only for a moment, for its script to be played.
bool start_scripted(QueuePair& queue_pair, const ibv_send_wr& request,
                    std::uint32_t number) noexcept {
  const Script script = next_operation();
  if (script.port_down_ns != 0) {
    take_port_down(now_ns() + script.port_down_ns);
    raise_event(*queue_pair.context, IBV_EVENT_PORT_ERR, nullptr, 1);
  }
  if (script.overrun) overrun_queue(*queue_pair.send_queue);
  if (script.remove_device) {
    queue_pair.context->removed.store(true);
    own_changes.fetch_add(1);
    raise_event(*queue_pair.context, IBV_EVENT_DEVICE_FATAL, nullptr);
    queue_pair.engine->segment().attention.store(1);
  }
  Waiting& waiting = keep(queue_pair, request, number);
  waiting.script = script;
  queue_pair.engine->wait_for(queue_pair, script.not_before_ns);
  return false;
}

/// What the script of a waiting request says now: an outcome instead of the real one, or nothing.
std::optional<Outcome> play(const QueuePair& queue_pair, Waiting& waiting) noexcept {
  Script& script = waiting.script;
  const std::uint64_t now = now_ns();
  if (script.status != 0)
    return Outcome{Verdict::done, static_cast<ibv_wc_status>(script.status), 0, 0};
  if (script.drops > 0) {
    --script.drops;
    if (queue_pair.raw.qp_type != IBV_QPT_RC)
      return Outcome{Verdict::done, IBV_WC_SUCCESS, 0, 0};  // Lost, and nobody notices.
    if (queue_pair.attributes.timeout == 0) {
      // Without a timer nobody notices: it stays outstanding, and all behind it, until the queue
      // pair leaves RTS.
      script.not_before_ns = ~std::uint64_t{0};
      return Outcome{Verdict::not_ready, IBV_WC_GENERAL_ERR, 0, 0};
    }
    if (waiting.losses++ >= queue_pair.attributes.retry_cnt)
      return Outcome{Verdict::done, IBV_WC_RETRY_EXC_ERR, 0, 0};
    script.not_before_ns = now + (std::uint64_t{4096} << queue_pair.attributes.timeout);
    return Outcome{Verdict::not_ready, IBV_WC_GENERAL_ERR, 0, 0};
  }
  if (script.no_receives > 0) {
    if (now >= waiting.due_ns) --script.no_receives;  // A poll in between is no attempt.
    return Outcome{Verdict::no_receive, IBV_WC_GENERAL_ERR, 0, 1};
  }
  if (const std::uint64_t until = port_down_until(); until > now)
    return Outcome{Verdict::not_ready, IBV_WC_GENERAL_ERR, 0, 0};
  return std::nullopt;
}

/// Keeps a request that cannot run now. The lock is held. True: the queue pair broke on it.
bool start_later(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number,
                 const Outcome& outcome) noexcept {
  Waiting& waiting = keep(queue_pair, request, number);
  const ibv_wc_status failed = postpone(queue_pair, waiting, outcome);
  if (failed == IBV_WC_SUCCESS) {
    queue_pair.engine->wait_for(queue_pair, waiting.due_ns);
    return false;
  }
  --queue_pair.waiting_tail;
  complete(queue_pair, waiting.request, number, failed, 0);
  return true;
}

/// Runs or keeps one request. The lock is held. True: the queue pair broke on it.
bool start(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number,
           Visit& visit) noexcept {
  if (is_unusual()) [[unlikely]] {
    if (queue_pair.state() != IBV_QPS_ERR) return start_scripted(queue_pair, request, number);
  } else if (queue_pair.state() == IBV_QPS_RTS &&
             queue_pair.waiting_head == queue_pair.waiting_tail) [[likely]] {
    const Outcome outcome = execute(queue_pair, request, visit);
    if (outcome.verdict != Verdict::done || outcome.byte_count > kLongCopy) visit.leave();
    if (outcome.verdict != Verdict::done) [[unlikely]]
      return start_later(queue_pair, request, number, outcome);
    if (outcome.status == IBV_WC_SUCCESS) learn(queue_pair, request, visit);
    complete(queue_pair, request, number, outcome.status, outcome.byte_count);
    return outcome.status != IBV_WC_SUCCESS;
  }
  if (queue_pair.state() == IBV_QPS_ERR) {
    complete(queue_pair, request, number, IBV_WC_WR_FLUSH_ERR, 0);
    return false;
  }
  keep(queue_pair, request, number);  // Behind what waits already: order is kept.
  return false;
}

/// Checks one request and starts it: an errno, or 0. It may break the queue pair.
int post_one(QueuePair& queue_pair, const ibv_send_wr& request, Visit& visit,
             bool& broken) noexcept {
  const ibv_qp_state state = queue_pair.state();
  if (state != IBV_QPS_RTS && state != IBV_QPS_ERR && state != IBV_QPS_SQD) return EINVAL;
  if (queue_pair.context->removed.load(std::memory_order_relaxed)) return EIO;
  if (const int wrong = check_request(queue_pair, request)) return wrong;
  if (is_full(queue_pair)) return ENOMEM;
  // The requests behind a broken one are flushed by the state that follows.
  if (start(queue_pair, request, queue_pair.posted++, visit)) [[unlikely]] {
    broken = true;
    queue_pair.set_state(IBV_QPS_ERR);
  }
  return 0;
}

/// The completion of a request that ran at once, as the last.
void tell(QueuePair& queue_pair, const ibv_send_wr& request) noexcept {
  push_send(queue_pair, request, queue_pair.posted - 1, IBV_WC_SUCCESS, request.sg_list->length);
}

/// Any requests. The lock is held, and released here.
[[gnu::noinline]] int post_list(QueuePair& queue_pair, ibv_send_wr* requests,
                                ibv_send_wr** rejected) noexcept {
  bool broken = false;
  int failed = 0;
  {
    const std::lock_guard lock{queue_pair.lock, std::adopt_lock};
    Visit visit{queue_pair};
    for (; requests != nullptr; requests = requests->next) {
      const Ran ran = run_at_once<Road::long_one>(queue_pair, *requests, visit);
      if (ran == Ran::to_tell) tell(queue_pair, *requests);
      if (ran != Ran::no) continue;
      failed = post_one(queue_pair, *requests, visit, broken);
      if (failed != 0) break;
    }
  }
  if (failed != 0) *rejected = requests;
  if (broken) break_queue_pair(queue_pair);
  return failed;
}

/// As post_list(), but the first has run and only lacks its completion.
[[gnu::noinline]] int tell_and_post(QueuePair& queue_pair, ibv_send_wr* requests,
                                    ibv_send_wr** rejected) noexcept {
  tell(queue_pair, *requests);
  return post_list(queue_pair, requests->next, rejected);
}

/// As post_list(), but another thread holds the lock.
[[gnu::noinline]] int wait_and_post(QueuePair& queue_pair, ibv_send_wr* requests,
                                    ibv_send_wr** rejected) noexcept {
  queue_pair.lock.lock();
  return post_list(queue_pair, requests, rejected);
}

}  // namespace

// One small request like one before it is a straight line; all else is for post_list.
int post_send(ibv_qp* raw, ibv_send_wr* requests, ibv_send_wr** rejected) noexcept {
  QueuePair& queue_pair = QueuePair::of(raw);
  if (requests == nullptr) return 0;
  if (!queue_pair.lock.try_lock()) [[unlikely]]
    return wait_and_post(queue_pair, requests, rejected);
  Visit visit{queue_pair};
  const Ran ran = run_at_once<Road::short_one>(queue_pair, *requests, visit);
  if (ran == Ran::no) [[unlikely]]
    return post_list(queue_pair, requests, rejected);
  if (ran == Ran::to_tell) [[unlikely]]
    return tell_and_post(queue_pair, requests, rejected);
  if (requests->next != nullptr) return post_list(queue_pair, requests->next, rejected);
  queue_pair.lock.unlock();
  return 0;
}

std::uint64_t retry(QueuePair& queue_pair, std::vector<QueuePair*>& broken) noexcept {
  // A poster holds this lock while it enters the list that our caller walks: do not wait for it.
  const std::unique_lock lock{queue_pair.lock, std::try_to_lock};
  if (!lock) return now_ns() + kBusyNs;
  while (queue_pair.waiting_head != queue_pair.waiting_tail && queue_pair.state() == IBV_QPS_RTS) {
    Waiting& waiting =
        queue_pair.waiting[queue_pair.waiting_head & (queue_pair.waiting_capacity - 1)];
    if (waiting.script.not_before_ns > now_ns()) return waiting.script.not_before_ns;
    const auto played = play(queue_pair, waiting);
    Visit visit{queue_pair};
    const Outcome outcome = played ? *played : execute(queue_pair, waiting.request, visit);
    ibv_wc_status status = outcome.status;
    if (outcome.verdict != Verdict::done) {
      status = postpone(queue_pair, waiting, outcome);
      if (status == IBV_WC_SUCCESS) return waiting.due_ns;
    }
    ++queue_pair.waiting_head;
    complete(queue_pair, waiting.request, waiting.number, status, outcome.byte_count);
    if (status == IBV_WC_SUCCESS) continue;
    queue_pair.set_state(IBV_QPS_ERR);
    broken.push_back(&queue_pair);
  }
  return 0;
}

void flush_sends(QueuePair& queue_pair) noexcept {
  const std::lock_guard lock{queue_pair.lock};
  while (queue_pair.waiting_head != queue_pair.waiting_tail) {
    const Waiting& waiting =
        queue_pair.waiting[queue_pair.waiting_head++ & (queue_pair.waiting_capacity - 1)];
    // A flushed request always completes, signaled or not.
    complete(queue_pair, waiting.request, waiting.number, IBV_WC_WR_FLUSH_ERR, 0);
  }
}

}  // namespace verbatim::engine
