// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/requester/post.hpp"

#include <cerrno>
#include <mutex>

#include "soft/faults/hook.hpp"
#include "soft/requester/execute.hpp"
#include "soft/requester/fast_path.hpp"
#include "soft/requester/retry.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

/// Whether every place of the send queue is taken.
[[nodiscard]] bool is_full(QueuePair& queue_pair) noexcept {
  if (queue_pair.posted != queue_pair.full_at) [[likely]]
    return false;
  // This is what was known so far. The poller may have freed places since.
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

// Inline, like the next: post_list() is as fast as if it were their only caller.
[[gnu::cold, gnu::always_inline]] inline int check_inline(const QueuePair& queue_pair,
                                                          const ibv_send_wr& request) noexcept {
  if ((bit(request.opcode) & kReads) != 0) return EINVAL;
  std::uint64_t bytes = 0;
  for (int i = 0; i < request.num_sge; ++i) bytes += request.sg_list[i].length;
  return bytes > queue_pair.limits.max_inline_data ? EINVAL : 0;
}

/// What a request must meet, apart from room. Returns an errno, or 0.
[[gnu::always_inline]] inline int check_request(QueuePair& queue_pair,
                                                const ibv_send_wr& request) noexcept {
  const ibv_qp_state state = queue_pair.state();
  if (state < IBV_QPS_RTS) return EINVAL;
  if (queue_pair.context->removed.load(std::memory_order_relaxed)) return EIO;
  // As an unsigned number, a negative count is too large.
  if (static_cast<std::uint32_t>(request.num_sge) > queue_pair.limits.max_send_sge) return EINVAL;
  const unsigned opcode = request.opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD ? bit(request.opcode) : 0;
  if ((opcode & allowed_opcodes(queue_pair.raw.qp_type)) == 0) [[unlikely]]
    return (opcode & (kSends | kWrites | kReads)) != 0 ? EINVAL : EOPNOTSUPP;
  if (queue_pair.raw.qp_type == IBV_QPT_UD && request.wr.ud.ah == nullptr) return EINVAL;
  return (request.send_flags & IBV_SEND_INLINE) != 0 ? check_inline(queue_pair, request) : 0;
}

/// Runs or queues one request. Returns true if the queue pair broke on it. The caller holds the
/// lock.
bool start(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number,
           Visit& visit) noexcept {
  if (is_unusual()) [[unlikely]] {
    if (!queue_pair.flushes_sends()) return start_scripted(queue_pair, request, number);
  } else if (queue_pair.state() == IBV_QPS_RTS && !queue_pair.has_waiting()) [[likely]] {
    const Outcome outcome = execute(queue_pair, request, visit);
    if (outcome.verdict != Verdict::done || outcome.byte_count > kLongCopy) visit.leave();
    if (outcome.verdict != Verdict::done) [[unlikely]]
      return start_later(queue_pair, request, number, outcome);
    if (outcome.status != IBV_WC_SUCCESS) [[unlikely]]
      return fail(queue_pair, request, number, outcome);
    learn(queue_pair, request, visit);
    complete(queue_pair, request, number, IBV_WC_SUCCESS, outcome.byte_count);
    return false;
  }
  if (queue_pair.flushes_sends()) {
    flush_waiting(queue_pair);  // They are older. The thread that flushes may come later.
    complete(queue_pair, request, number, IBV_WC_WR_FLUSH_ERR, 0);
    return false;
  }
  keep(queue_pair, request, number);  // After the requests that wait already, to keep the order.
  return false;
}

/// Checks one request and starts it. Returns an errno, or 0. The request may break the queue pair.
int post_one(QueuePair& queue_pair, const ibv_send_wr& request, Visit& visit,
             bool& broken) noexcept {
  if (const int wrong = check_request(queue_pair, request)) return wrong;
  if (is_full(queue_pair)) return ENOMEM;
  broken |= start(queue_pair, request, queue_pair.posted++, visit);
  return 0;
}

/// Pushes the completion of the latest request, which has run.
void tell(QueuePair& queue_pair, const ibv_send_wr& request) noexcept {
  push_send(queue_pair, request, queue_pair.posted - 1, IBV_WC_SUCCESS, request.sg_list->length);
}

/// How the caller took the lock of the queue pair: see BiasedLock.
enum class Held : std::uint8_t { as_owner, as_any };

/// Posts any list of requests. The caller holds the lock; this function releases it.
[[gnu::noinline]] int post_list(QueuePair& queue_pair, ibv_send_wr* requests,
                                ibv_send_wr** rejected) noexcept {
  bool broken = false;
  int failed = 0;
  {
    const std::lock_guard lock{queue_pair.lock, std::adopt_lock};
    Visit visit{queue_pair.route};
    for (; requests != nullptr; requests = requests->next) {
      const Ran ran = run_at_once<Road::long_one>(queue_pair, *requests, visit);
      if (ran == Ran::to_tell) tell(queue_pair, *requests);
      if (ran != Ran::no) continue;
      failed = post_one(queue_pair, *requests, visit, broken);
      if (failed != 0) break;
    }
  }
  if (failed != 0) *rejected = requests;
  if (broken) queue_pair.engine->call_own_attention();
  return failed;
}

/// Like post_list(), but the first request has run, and only its completion is missing.
[[gnu::noinline]] int tell_and_post(QueuePair& queue_pair, ibv_send_wr* requests,
                                    ibv_send_wr** rejected) noexcept {
  tell(queue_pair, *requests);
  return post_list(queue_pair, requests->next, rejected);
}

/// Like tell_and_post(), if the peer of the first request is alive. If not, the long path runs the
/// request again and finds the failure.
[[gnu::noinline]] int ask_and_post(QueuePair& queue_pair, ibv_send_wr* requests,
                                   ibv_send_wr** rejected) noexcept {
  if (!queue_pair.route.peer->seems_alive()) [[unlikely]] {
    --queue_pair.posted;
    queue_pair.known.forget();
    return post_list(queue_pair, requests, rejected);
  }
  const bool pushed = try_push_own(*queue_pair.send_completions, [&](OwnCompletion& own) {
    fill_send(own, queue_pair, requests->wr_id, queue_pair.posted - 1,
              kCompletedOpcode[requests->opcode], kWordBytes);
  });
  if (!pushed || requests->next != nullptr) [[unlikely]] {
    if (!pushed) tell(queue_pair, *requests);
    return post_list(queue_pair, requests->next, rejected);
  }
  queue_pair.lock.unlock();
  return 0;
}

/// Like post_send(), when there seems to be no more room. The poller may have freed places since.
/// The caller holds the lock.
[[gnu::noinline]] int renew_and_post(QueuePair& queue_pair, ibv_send_wr* requests,
                                     ibv_send_wr** rejected) noexcept {
  if (is_full(queue_pair)) return post_list(queue_pair, requests, rejected);
  queue_pair.lock.unlock();
  return post_send(&queue_pair.raw, requests, rejected);
}

/// One small request that is like an earlier one takes a straight path. All others go to post_list.
/// The caller holds the lock.
template <Held held>
[[gnu::always_inline]] inline int post_first(QueuePair& queue_pair, ibv_send_wr* requests,
                                             ibv_send_wr** rejected) noexcept {
  const auto go_on = [&](auto& how, ibv_send_wr* from) {
    if constexpr (held == Held::as_owner) queue_pair.lock.keep();
    return how(queue_pair, from, rejected);
  };
  if (queue_pair.posted == queue_pair.full_at) [[unlikely]]
    return go_on(renew_and_post, requests);
  Visit visit{queue_pair.route};
  const Ran ran = run_at_once<Road::short_one>(queue_pair, *requests, visit);
  if (ran == Ran::no) [[unlikely]]
    return go_on(post_list, requests);
  if (ran == Ran::to_ask) return go_on(ask_and_post, requests);
  if (ran == Ran::to_tell) [[unlikely]]
    return go_on(tell_and_post, requests);
  if (requests->next != nullptr) return go_on(post_list, requests->next);
  if constexpr (held == Held::as_owner)
    queue_pair.lock.unlock_as_owner();
  else
    queue_pair.lock.unlock();
  return 0;
}

/// For the first post of a thread, or when several threads post.
[[gnu::noinline]] int lock_and_post(QueuePair& queue_pair, ibv_send_wr* requests,
                                    ibv_send_wr** rejected) noexcept {
  queue_pair.lock.lock_and_own();
  return post_first<Held::as_any>(queue_pair, requests, rejected);
}

/// Checks every request of a list, and that there is room for all. Returns an errno, or 0. The
/// caller holds the lock.
int check_list(QueuePair& queue_pair, const ibv_send_wr* requests) noexcept {
  std::uint32_t count = 0;
  for (; requests != nullptr; requests = requests->next, ++count)
    if (const int wrong = check_request(queue_pair, *requests)) return wrong;
  if (queue_pair.full_at - queue_pair.posted >= count) return 0;
  queue_pair.full_at =
      queue_pair.retired.load(std::memory_order_acquire) + queue_pair.limits.max_send_wr;
  return queue_pair.full_at - queue_pair.posted >= count ? 0 : ENOMEM;
}

}  // namespace

int post_send(ibv_qp* raw, ibv_send_wr* requests, ibv_send_wr** rejected) noexcept {
  QueuePair& queue_pair = QueuePair::of(raw);
  if (requests == nullptr) [[unlikely]]
    return 0;
  if (!queue_pair.lock.try_lock_as_owner()) [[unlikely]]
    return lock_and_post(queue_pair, requests, rejected);
  return post_first<Held::as_owner>(queue_pair, requests, rejected);
}

int post_all_or_none(ibv_qp* raw, ibv_send_wr* requests) noexcept {
  QueuePair& queue_pair = QueuePair::of(raw);
  queue_pair.lock.lock_and_own();
  if (const int wrong = check_list(queue_pair, requests)) {
    queue_pair.lock.unlock();
    return wrong;
  }
  // Nobody else changes the state or takes places meanwhile. A request that fails when it runs
  // flushes the rest, and is no failure here.
  ibv_send_wr* rejected = nullptr;
  return post_list(queue_pair, requests, &rejected);
}

}  // namespace verbatim::engine
