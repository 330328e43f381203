// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/engine.hpp"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>

#include "base/library_thread.hpp"
#include "soft/completer/completion_queue.hpp"
#include "soft/completer/poll.hpp"
#include "soft/control/reclaim.hpp"
#include "soft/faults/hook.hpp"
#include "soft/memory/memory_object.hpp"
#include "soft/memory/region_spans.hpp"
#include "soft/requester/queue_pair.hpp"
#include "soft/shared/changes.hpp"
#include "soft/shared/settings.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::engine {
namespace {

Ranked<LockRank::engine, std::mutex> engine_mutex;
std::weak_ptr<Engine> the_engine;
Engine* forked_from = nullptr;    // The engine that a forked child must not clean up.
std::shared_ptr<Engine> forking;  // The engine whose locks are held during a fork.

// How long an exit waits for a lock. This thread itself may hold it, if a signal handler called
// exit(). For the same reason an exit must not allocate.
constexpr std::uint64_t kOpeningNs = 200'000'000;     // A device is opened in milliseconds.
constexpr std::uint64_t kRequestsNs = 2'000'000'000;  // A gigabyte is copied in a fraction of it.

template <class TryLock>
bool take_until(std::uint64_t end_ns, const TryLock& try_lock) {
  for (Backoff backoff; !try_lock(); backoff.wait())
    if (now_ns() > end_ns) return false;
  return true;
}

/// Removes the files of a program that exits while its devices are open. Its other threads may run
/// on for a while. If a request of theirs does not end, the files stay, because peers take the
/// process for dead without them. The next program that starts then removes them.
struct Leftovers {
  ~Leftovers() {
    std::unique_lock lock{engine_mutex, std::defer_lock};
    if (!take_until(now_ns() + kOpeningNs, [&lock] { return lock.try_lock(); })) return;
    const auto engine = the_engine.lock();
    if (!engine || engine.get() == forked_from) return;
    if (engine->end_requests()) engine->own().remove_files();
  }
};

// A forked child has its parent's queues but not its memory. Work that it posted would complete in
// the parent, without the child's data.
int refuse_send(ibv_qp*, ibv_send_wr* work, ibv_send_wr** bad) noexcept {
  *bad = work;
  return EOWNERDEAD;
}
int refuse_receive(ibv_qp*, ibv_recv_wr* work, ibv_recv_wr** bad) noexcept {
  *bad = work;
  return EOWNERDEAD;
}
int refuse_shared_receive(ibv_srq*, ibv_recv_wr* work, ibv_recv_wr** bad) noexcept {
  *bad = work;
  return EOWNERDEAD;
}
int refuse_poll(ibv_cq*, int, ibv_wc*) noexcept { return -EOWNERDEAD; }
int refuse_arm(ibv_cq*, int) noexcept { return EOWNERDEAD; }
int refuse_start(ibv_cq_ex*, ibv_poll_cq_attr*) noexcept { return EOWNERDEAD; }
int refuse_next(ibv_cq_ex*) noexcept { return EOWNERDEAD; }
int refuse_list(ibv_qp_ex*) noexcept { return EOWNERDEAD; }
// Another thread of the parent may hold the lock that starting a list takes.
void start_nothing(ibv_qp_ex*) noexcept {}

void refuse_work(ibv_context_ops& verbs) noexcept {
  if (verbs.poll_cq != &poll) return;  // The verbs were already replaced by other code.
  verbs.post_send = &refuse_send;
  verbs.post_recv = &refuse_receive;
  verbs.post_srq_recv = &refuse_shared_receive;
  verbs.poll_cq = &refuse_poll;
  verbs.req_notify_cq = &refuse_arm;
}

/// The extended verbs are pointers in each object. A thread of the parent may hold the lock between
/// start_poll and end_poll, but nobody waits for it here.
void refuse_work(CompletionQueue& queue) noexcept {
  if (queue.raw.start_poll == nullptr) return;
  queue.raw.start_poll = &refuse_start;
  queue.raw.next_poll = &refuse_next;
}
void refuse_work(QueuePair& queue_pair) noexcept {
  if (queue_pair.builder == nullptr) return;
  queue_pair.extended.wr_start = &start_nothing;
  queue_pair.extended.wr_abort = &start_nothing;
  queue_pair.extended.wr_complete = &refuse_list;
}

}  // namespace

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

Engine::Engine(const Directory& directory, std::unique_ptr<OwnSegment> own)
    : directory_(directory),
      own_(std::move(own)),
      segment_(&own_->shared()),
      objects_(std::make_unique<MemoryObjects>(*own_)),
      spans_(std::make_unique<RegionSpans>()),
      peers_(directory),
      reclaimer_(std::make_unique<Reclaimer>()),
      tag_(own_->tag()) {
  peers_.add_self(own_->shared(), own_->trusted_regions());
}

const detail::ForkHandlers Engine::kForkHandlers{&before_fork, &after_fork_in_parent,
                                                 &after_fork_in_child};

Result<std::shared_ptr<Engine>> Engine::get() {
  const std::lock_guard lock{engine_mutex};
  if (auto engine = the_engine.lock(); engine && engine.get() != forked_from) return engine;
  VERBATIM_TRY(check_settings());
  if (const auto error = environment_error()) return std::unexpected(*error);
  auto directory = VERBATIM_TRY(Directory::open());
  auto own = VERBATIM_TRY(OwnSegment::create(directory));
  // Another process may have removed the directory and created it again. Now that our file is in
  // it, it stays.
  directory = VERBATIM_TRY(Directory::open());
  std::shared_ptr<Engine> engine{new Engine{directory, std::move(own)}};
  the_engine = engine;
  static const Leftovers leftovers;
  static std::once_flag once;
  std::call_once(once, [] {
    // With Yama's ptrace_scope 1, a sibling process may access our memory only if we allow it. We
    // allow it if the environment asks for it.
    if (may_be_traced()) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  });
  // Peers may be denied access to our memory. The helper then copies for them.
  if (!memory_policy().process_vm || prctl(PR_GET_DUMPABLE) != 1 || is_tracing_denied())
    engine->start_helper();
  return engine;
}

// Holds the locks across the fork, so that the child finds consistent data behind them: the static
// locks, and those of the parts that the child abandons. The order is the one used everywhere else.
void Engine::before_fork() noexcept {
  engine_mutex.lock();
  if (const auto engine = the_engine.lock(); engine && engine.get() != forked_from) {
    engine->contexts_mutex_.lock();
    engine->peers_.before_fork();
    engine->objects_->before_fork();
    engine->own_->before_fork();
    forking = engine;
  }
  lock_script();
}

void Engine::after_fork_in_parent() noexcept {
  if (const auto engine = std::move(forking)) {
    engine->own_->after_fork();
    engine->objects_->after_fork_in_parent();
    engine->peers_.after_fork();
    engine->contexts_mutex_.unlock();
  }
  unlock_script();
  engine_mutex.unlock();
}

void Engine::after_fork_in_child() noexcept {
  if (auto engine = std::move(forking)) {
    forked_from = engine.get();
    engine->own_->after_fork();
    engine->objects_->abandon();
    engine->peers_.after_fork();
    engine->own_->abandon();
    for (Context* const context : engine->contexts_) refuse_work(context->extended.context.ops);
    engine->completion_queues.for_each([](CompletionQueue& queue) { refuse_work(queue); });
    engine->receive_sides.for_each(
        [](const ReceiveSide& side) { refuse_work(QueuePair::of(side)); });
    engine->contexts_mutex_.unlock();
    // The thread belongs to the parent. The child must neither join nor destroy it.
    [[maybe_unused]] const auto* const left = engine->helper_.release();
  }
  unlock_script();
  engine_mutex.unlock();
}

Engine::~Engine() {
  if (helper_) {
    stop_.store(true);
    self().ring_doorbell();
    helper_->join();
  }
}

bool Engine::end_requests() noexcept {
  const std::uint64_t end = now_ns() + kRequestsNs;
  if (!take_until(end, [this] { return lifetime.try_lock_shared(); })) return false;
  // First without the locks of queue pairs: a thread that posts long copies has one nearly always.
  receive_sides.for_each(
      [](const ReceiveSide& side) { QueuePair::of(side).context->removed.store(true); });
  own_changes.fetch_add(1);
  BiasedLock::order_threads();
  // From here on a thread that comes in posts nothing.
  bool have_ended = true;
  receive_sides.for_each([&](const ReceiveSide& side) {
    QueuePair& queue_pair = QueuePair::of(side);
    if (queue_pair.lock.is_held_here()) return;  // A signal interrupted that request for ever.
    if (!take_until(end, [&] { return queue_pair.lock.try_lock(); })) {
      have_ended = false;
      return;
    }
    const ibv_qp_state state = queue_pair.state();
    // Nothing is flushed here: this thread itself may be inside a completion queue.
    if (state == IBV_QPS_RTS || state == IBV_QPS_SQD) queue_pair.break_later();
    queue_pair.lock.unlock();
  });
  lifetime.unlock_shared();
  return have_ended;
}

bool Engine::has_helper() noexcept {
  const std::lock_guard lock{helper_mutex_};
  return helper_ != nullptr;
}

void Engine::start_helper() noexcept {
  const std::lock_guard lock{helper_mutex_};
  if (helper_ || this == forked_from) return;
  try {
    auto helper = std::make_unique<std::thread>();  // First, to keep a thread once it runs.
    *helper = start_library_thread([this] { run_helper(); });
    helper_ = std::move(helper);
    segment().helper_serves.store(1);
  } catch (const std::exception& failure) {
    // Without a helper, waiting requests advance only when the program polls or posts.
    log(LogLevel::warning, failure.what());
  }
}

void Engine::add_context(Context* context) {
  const std::lock_guard lock{contexts_mutex_};
  contexts_.push_back(context);
}

void Engine::remove_context(Context* context) noexcept {
  const std::lock_guard lock{contexts_mutex_};
  std::erase(contexts_, context);
}

}  // namespace verbatim::engine
