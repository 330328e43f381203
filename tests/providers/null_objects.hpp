// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the null provider keeps behind the raw objects. Private to it.
///
/// Each type begins with the raw object that users of the verbs see. The constructor makes an
/// object complete; the object counts itself and its use of others.
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace verbatim::null {

inline std::atomic<int> live{0};
inline std::atomic<std::uint32_t> next_handle{1};

/// The base of every object whose leak a test may want to find.
struct Counted {
  Counted() { ++live; }
  ~Counted() { --live; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
};

/// An object holds one of these for each object that it needs. Those cannot be destroyed before it.
class Use {
 public:
  /// Does nothing if the object is null.
  template <class T>
  explicit Use(T* object) : users_(object != nullptr ? &object->users : nullptr) {
    if (users_ != nullptr) ++*users_;
  }
  ~Use() {
    if (users_ != nullptr) --*users_;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  void swap(Use& other) noexcept { std::swap(users_, other.users_); }

 private:
  std::atomic<int>* users_;
};

/// Events in order, with a descriptor that is readable while there are any.
template <class Event>
class EventQueue {
 public:
  EventQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}
  ~EventQueue() { ::close(fd_); }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  [[nodiscard]] int fd() const { return fd_; }

  void push(const Event& event) {
    const std::lock_guard guard{mutex_};
    events_.push_back(event);
    eventfd_write(fd_, 1);
  }
  /// Blocks; with O_NONBLOCK on the descriptor, returns -1 with EAGAIN.
  int take(Event& event) {
    for (;;) {
      eventfd_t one;
      if (eventfd_read(fd_, &one) != 0) return -1;
      const std::lock_guard guard{mutex_};
      if (events_.empty()) continue;  // Dropped in between.
      event = events_.front();
      events_.pop_front();
      return 0;
    }
  }
  /// Forgets the events of an object that goes away.
  template <class Matches>
  void drop(Matches matches) {
    const std::lock_guard guard{mutex_};
    for (auto dropped = std::erase_if(events_, matches); dropped > 0; --dropped) {
      pollfd ready{fd_, POLLIN, 0};
      eventfd_t one;
      if (::poll(&ready, 1, 0) == 1) eventfd_read(fd_, &one);
    }
  }

 private:
  int fd_;
  std::mutex mutex_;
  std::deque<Event> events_;
};

struct Context : ibv_context, Counted {
  explicit Context(ibv_device* from) : ibv_context{} {
    device = from;
    cmd_fd = -1;
    async_fd = events.fd();
  }
  std::atomic<int> users{0};
  EventQueue<ibv_async_event> events;
};

struct Domain : ibv_pd, Counted {
  explicit Domain(Context* parent) : ibv_pd{}, context_use(parent) {
    context = parent;
    handle = next_handle++;
  }
  Use context_use;
  std::atomic<int> users{0};
};

struct Region : ibv_mr, Counted {
  Region(Domain* parent, void* start, std::size_t size) : ibv_mr{}, domain_use(parent) {
    context = parent->context;
    pd = parent;
    addr = start;
    length = size;
    handle = next_handle++;
    renew_keys();
  }
  void renew_keys() {
    lkey = next_handle++ << 8;
    rkey = lkey | 1;  // Differs from lkey, so that mixing them up is noticed.
  }
  Use domain_use;
};

struct AddressHandle : ibv_ah, Counted {
  explicit AddressHandle(Domain* parent) : ibv_ah{}, domain_use(parent) {
    context = parent->context;
    pd = parent;
    handle = next_handle++;
  }
  Use domain_use;
};

struct Channel : ibv_comp_channel, Counted {
  explicit Channel(Context* parent) : ibv_comp_channel{}, context_use(parent) {
    context = parent;
    fd = events.fd();
  }
  Use context_use;
  std::atomic<int> users{0};
  EventQueue<ibv_cq*> events;
};

struct QueuePair;

struct Outcome {
  ibv_wc_status status;
  ibv_wc_opcode opcode;
};

/// The completion of a send, waiting to be polled.
struct Entry {
  std::uint64_t wr_id;
  QueuePair* owner;
  std::uint32_t byte_count;
  std::uint32_t posted;  ///< The owner's count up to this one, which polling frees.
  // A separate struct, so that it is stored and soon after loaded in one access of the same width.
  // Otherwise the processor would stall, and hide the cost of everything around it.
  Outcome outcome;
};

enum class Armed : std::uint8_t { no, solicited_only, any };

struct CompletionQueue : ibv_cq, Counted {
  CompletionQueue(Context* parent, void* user, Channel* wakes, std::uint32_t depth)
      : ibv_cq{}, context_use(parent), channel_use(wakes) {
    context = parent;
    channel = wakes;
    cq_context = user;
    cqe = static_cast<int>(depth);
    handle = next_handle++;
    make_ring(depth);
  }
  /// Makes room for the sends of one more queue pair. So there is always room, whatever the depth;
  /// checking that the depth suffices for all queue pairs is left to the library. (If it does, the
  /// ring stays, and a thread that polls is not disturbed.)
  void make_room(std::uint32_t sends) {
    reserved += sends;
    if (reserved > mask) make_ring(reserved);
  }
  void make_ring(std::uint32_t entries) {
    const std::uint32_t size = std::bit_ceil(entries + 1);
    auto bigger = std::make_unique<Entry[]>(size);
    for (std::uint32_t at = tail; at != head; ++at) bigger[at & (size - 1)] = ring[at & mask];
    ring = std::move(bigger);
    mask = size - 1;
  }
  /// Removes the completions of a queue pair, as drivers do before its number is used again.
  void purge(const QueuePair* owner) {
    std::uint32_t kept = tail;
    for (std::uint32_t at = tail; at != head; ++at) {
      const Entry& entry = ring[at & mask];
      if (entry.owner != owner) ring[kept++ & mask] = entry;
    }
    if (kept != head) head = kept;
  }

  Use context_use;
  Use channel_use;
  std::unique_ptr<Entry[]> ring;
  std::uint32_t mask = 0;
  std::atomic<std::uint32_t> reserved{0};
  std::deque<ibv_wc> injected;
  std::atomic<Armed> armed{Armed::no};
  std::atomic<int> users{0};
  std::atomic<int> unacknowledged{0};
  // On separate cache lines, because producer and consumer may be two threads.
  alignas(64) std::atomic<std::uint32_t> head{0};
  alignas(64) std::atomic<std::uint32_t> tail{0};
};

struct SharedQueue : ibv_srq, Counted {
  SharedQueue(Domain* parent, const ibv_srq_init_attr& init)
      : ibv_srq{}, domain_use(parent), attributes(init.attr) {
    context = parent->context;
    srq_context = init.srq_context;
    pd = parent;
    handle = next_handle++;
    attributes.srq_limit = 0;
  }
  Use domain_use;
  ibv_srq_attr attributes;
  std::uint32_t posted = 0;
  std::atomic<int> users{0};
  std::atomic<int> unacknowledged{0};
};

// Every raw object is one of ours, because only this table creates them.
inline Context* mine(ibv_context* raw) { return static_cast<Context*>(raw); }
inline Domain* mine(ibv_pd* raw) { return static_cast<Domain*>(raw); }
inline Channel* mine(ibv_comp_channel* raw) { return static_cast<Channel*>(raw); }
inline CompletionQueue* mine(ibv_cq* raw) { return static_cast<CompletionQueue*>(raw); }
inline SharedQueue* mine(ibv_srq* raw) { return static_cast<SharedQueue*>(raw); }

struct QueuePair : ibv_qp, Counted {
  QueuePair(Domain* parent, const ibv_qp_init_attr& from, std::uint32_t number)
      : ibv_qp{},
        domain_use(parent),
        send_use(mine(from.send_cq)),
        receive_use(mine(from.recv_cq)),
        shared_use(mine(from.srq)),
        signal_all(from.sq_sig_all != 0),
        cap(from.cap),
        init(from) {
    context = parent->context;
    qp_context = from.qp_context;
    pd = parent;
    send_cq = from.send_cq;
    recv_cq = from.recv_cq;
    srq = from.srq;
    handle = next_handle++;
    qp_num = number;
    qp_type = from.qp_type;
    mine(send_cq)->make_room(cap.max_send_wr);
  }
  ~QueuePair() {
    mine(send_cq)->purge(this);
    mine(send_cq)->reserved -= cap.max_send_wr;
  }
  void enter(ibv_qp_state to) {
    state = attributes.qp_state = to;
    plain = to == IBV_QPS_RTS && ordered == IBV_WC_SUCCESS;
  }

  Use domain_use;
  Use send_use;
  Use receive_use;
  Use shared_use;
  bool plain = false;  ///< In RTS, with no failure ordered; one test on the data path.
  bool signal_all;
  ibv_wc_status ordered = IBV_WC_SUCCESS;  ///< What becomes of the next send.
  ibv_qp_cap cap;
  std::uint32_t posted = 0;
  std::atomic<std::uint32_t> retired{0};
  std::uint32_t receives = 0;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init;
  std::atomic<int> unacknowledged{0};
};
inline QueuePair* mine(ibv_qp* raw) { return static_cast<QueuePair*>(raw); }

/// Posting, polling and arming: the functions that the inline functions of verbs.h call.
void set_data_path(ibv_context_ops& ops);
/// Sends the event that an armed queue owes for a new completion.
void raise_completion(CompletionQueue& queue, bool solicited);

}  // namespace verbatim::null
