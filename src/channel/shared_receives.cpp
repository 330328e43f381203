// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/shared_receives.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/clock.hpp"
#include "provider/fork_guard.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"
#include "verbs/block_stride.hpp"
#include "verbs/hidden_block.hpp"

namespace verbatim::detail {
namespace {

constexpr const char* kOperation = "Reactor::create";
/// How many receives are posted with one doorbell.
constexpr std::uint32_t kBatch = 16;
constexpr std::uint32_t kFirstBits = 6;  ///< Of the table's size.
/// A queue pair's event that it has taken its last receive may arrive before the queue pair is
/// retired. No callback runs for it then, so look once soon after.
constexpr std::chrono::milliseconds kFirstLook{1};

}  // namespace

// ---- Making -------------------------------------------------------------------------------------

SharedReceives::Block::Block(BufferHome& of, std::span<std::byte> part, MemoryRegion registered,
                             Slot& own) noexcept
    : BufferBlock(of, part, std::move(registered)),
      slot(own),
      element{reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint32_t>(size), key} {
  request.sg_list = &element;
  request.num_sge = 1;
}

SharedReceives::Clockwork::Clockwork(SharedReceives& of) noexcept
    : Timer([](Timer& self) noexcept { static_cast<Clockwork&>(self).shared.look_at_retired(); }),
      shared(of) {}

SharedReceives::SharedReceives(CompletionCore& of, const SharedReceiveOptions& chosen) noexcept
    : BufferHome{&SharedReceives::take_back},
      core(of),
      options(chosen),
      low_(std::clamp(chosen.count / 4, 1u, kBatch)),
      shift_(32 - kFirstBits),
      table_(std::size_t{1} << kFirstBits),
      waker_(of.waker) {}

SharedReceives::~SharedReceives() {
  // The system may give the memory to another owner.
  if constexpr (VERBATIM_ASAN)
    for (std::uint32_t i = 0; blocks_ && i < options.count; ++i)
      if (blocks_[i]) show(*blocks_[i]);
}

Result<SharedReceives*> SharedReceives::create(CompletionCore& core, const ProtectionDomain& domain,
                                               const SharedReceiveOptions& options) {
  const auto refuse = [](Errc code, const char* field, std::uint64_t value, std::uint64_t limit) {
    return std::unexpected(Error{
        .code = code, .operation = kOperation, .field = field, .value = value, .limit = limit});
  };
  if (options.bytes == 0) return refuse(Errc::invalid_argument, "receives.bytes", 0, 0);
  if (options.count == 0) return refuse(Errc::invalid_argument, "receives.count", 0, 0);
  if (options.max_unread == 0) return refuse(Errc::invalid_argument, "receives.max_unread", 0, 0);
  const std::uint64_t limit =
      std::min<std::uint64_t>(domain.context().capabilities().max_region_bytes, UINT32_MAX);
  if (options.bytes > limit - kBlockAlignment)
    return refuse(Errc::limit_exceeded, "receives.bytes", options.bytes, limit - kBlockAlignment);
  std::unique_ptr<SharedReceives, void (*)(SharedReceives*)> made{
      new SharedReceives{core, options}, [](SharedReceives* failed) { delete failed; }};
  VERBATIM_TRY(made->open(domain));
  return made.release();
}

Result<void> SharedReceives::open(const ProtectionDomain& domain) {
  if (domain.context().capabilities().shared_receive_queue)
    queue = VERBATIM_TRY(
        domain.create_shared_receive_queue({.max_requests = options.count, .max_elements = 1}));
  const std::size_t stride = stride_of(options.bytes);
  arena_ =
      VERBATIM_TRY(domain.allocate(stride * options.count, {.huge_pages = options.huge_pages}));
  blocks_ = std::make_unique<std::optional<Block>[]>(options.count);
  run_ = VERBATIM_TRY(core.slab.claim(options.count));
  for (std::uint32_t i = 0; i < options.count; ++i) {
    const std::span<std::byte> part = arena_->bytes().subspan(i * stride, options.bytes);
    Block& block = blocks_[i].emplace(*this, part, Raw::part_of(arena_->region(), part), run_[i]);
    block.next = std::exchange(home_, &block);
    ++at_home_;
  }
  post();
  return {};
}

void SharedReceives::close() noexcept {
  thread_.store(0, std::memory_order_relaxed);
  retired_.clear();
  queue.reset();  // What was posted goes with it.
  std::uint32_t here = length_of(std::exchange(home_, nullptr));
  for (Slot& slot : run_) {
    if (slot.state != SlotState::shared) continue;
    ++here;
    land(slot, 0);
    slot.state = SlotState::free;
  }
  here += length_of(returned_.close());
  if (returned_.expect(std::int64_t{options.count} - here)) delete this;
}

// ---- Posting ------------------------------------------------------------------------------------

void SharedReceives::take_back(BufferHome& home, BufferBlock& block) noexcept {
  auto& self = static_cast<SharedReceives&>(home);
  if constexpr (VERBATIM_ASAN) hide(block);
  if (self.thread_.load(std::memory_order_relaxed) != this_thread()) [[unlikely]] {
    self.take_back_slowly(block);
    return;
  }
  self.keep(static_cast<Block&>(block));
}

void SharedReceives::take_back_slowly(BufferBlock& block) noexcept {
  std::shared_ptr<Waker> sleeper;  // `this` may be gone by then.
  switch (returned_.put(block, [&] { sleeper = waker_; })) {
    case ReturnedBlocks::Put::last: delete this; break;
    case ReturnedBlocks::Put::awaited: sleeper->wake(); break;
    case ReturnedBlocks::Put::queued:  // Nobody waits for this one.
    case ReturnedBlocks::Put::kept:
    case ReturnedBlocks::Put::closed: break;
  }
}

void SharedReceives::keep(Block& block) noexcept {
  block.next = std::exchange(home_, &block);
  if (++at_home_ >= kBatch || posted_ < low_) post();
}

bool SharedReceives::collect() noexcept {
  BufferBlock* list = returned_.take();
  const bool any = list != nullptr;
  while (list != nullptr) {
    BufferBlock& block = *list;
    list = block.next;
    block.next = std::exchange(home_, &block);
    ++at_home_;
  }
  return any;
}

void SharedReceives::take_off(Block& block) noexcept {
  block.slot.id += kGeneration;  // Makes completions of an earlier receive stale.
  block.slot.state = SlotState::shared;
  block.sequence = ++sequence_;
  block.request.wr_id = block.slot.id;
  block.request.next = block.next != nullptr ? &static_cast<Block*>(block.next)->request : nullptr;
  if constexpr (dma::kModelled) {
    show(block);
    const dma::Range range{block.data, block.size};
    dma::posted(block.model, block.slot.flight, dma::Direction::device_writes, {&range, 1},
                std::source_location::current());
  }
}

void SharedReceives::come_home(Block& block) noexcept {
  block.slot.state = SlotState::free;
  block.holder = nullptr;
  if constexpr (VERBATIM_ASAN) hide(block);
  block.next = std::exchange(home_, &block);
  ++at_home_;
  --posted_;
}

void SharedReceives::call_off(BufferBlock* first) noexcept {
  while (first != nullptr) {
    Block& block = static_cast<Block&>(*std::exchange(first, first->next));
    detail::call_off(block.slot);
    come_home(block);
  }
}

void SharedReceives::post() noexcept {
  if (home_ == nullptr || is_forked(Raw::of(core.context))) return;
  if (!queue) {
    low_ = 0;
    for (const Entry& each : table_)
      if (each.number != 0) post_to(*each.inbox);
    return;
  }
  for (BufferBlock* each = home_; each != nullptr; each = each->next)
    take_off(static_cast<Block&>(*each));
  ibv_srq* const raw = Raw::of(*queue);
  BufferBlock* each = std::exchange(home_, nullptr);
  posted_ += std::exchange(at_home_, 0);
  ibv_recv_wr* rejected = nullptr;
  const int failed =
      raw->context->ops.post_srq_recv(raw, &static_cast<Block*>(each)->request, &rejected);
  if (failed == 0) [[likely]]
    return;
  while (each != nullptr && rejected != nullptr && &static_cast<Block*>(each)->request != rejected)
    each = each->next;
  call_off(each);
}

void SharedReceives::post_to(Inbox& inbox) noexcept {
  if (inbox.channel == nullptr || inbox.channel->is_ending()) return;
  while (inbox.held < kOwnReceives && home_ != nullptr) {
    Block& block = static_cast<Block&>(*home_);
    home_ = std::exchange(block.next, nullptr);
    --at_home_;
    ++posted_;
    take_off(block);
    ibv_recv_wr* rejected = nullptr;
    if (call(inbox.channel->raw, &block.request, &rejected) != 0) return call_off(&block);
    block.holder = &inbox;
    ++inbox.held;
  }
  // The next block that comes home is for this channel.
  if (inbox.held < kOwnReceives) low_ = UINT32_MAX;
}

void SharedReceives::reclaim(Inbox& inbox) noexcept {
  if (queue) return;
  for (Slot& slot : run_) {
    Block& block = block_of(slot);
    if (block.holder != &inbox) continue;
    land(slot, 0);
    come_home(block);
  }
  inbox.held = 0;
  post();
}

void SharedReceives::flush() noexcept {
  do {
    thread_.store(this_thread(), std::memory_order_relaxed);
    static_cast<void>(collect());
    post();
    if (posted_ < low_) recover();
  } while (posted_ < low_ && !returned_.await());
}

std::uint32_t SharedReceives::free() noexcept {
  static_cast<void>(collect());
  return posted_ + at_home_;
}

Buffer SharedReceives::buffer_of(const Slot& message) noexcept {
  return Raw::buffer(&block_of(message));
}

void SharedReceives::give_back(Slot& message) noexcept {
  Block& block = block_of(message);
  take_back(*this, block);
}

// ---- Messages -----------------------------------------------------------------------------------

Slot* SharedReceives::take_in(Slot& slot, const ibv_wc& wc) noexcept {
  Block& block = block_of(slot);
  if constexpr (dma::kModelled) land(slot, wc);
  slot.state = SlotState::done;
  --posted_;
  if (block.holder != nullptr) [[unlikely]]
    --std::exchange(block.holder, nullptr)->held;
  thread_.store(this_thread(), std::memory_order_relaxed);
  Inbox* const inbox = inbox_of(wc.qp_num);
  if (block.sequence > latest) latest = block.sequence;
  if (inbox == nullptr || wc.status != IBV_WC_SUCCESS) [[unlikely]] {
    take_in_failure(inbox, wc);  // First, so that its queue pair gets no more.
    if constexpr (VERBATIM_ASAN) hide(block);
    keep(block);
    return nullptr;
  }
  inbox->latest = block.sequence;
  if (!queue && inbox->held <= kOwnReceives / 2) [[unlikely]]
    post_to(*inbox);
  slot.completion = std::bit_cast<Completion>(wc);
  return inbox->put(slot);
}

void SharedReceives::take_in_failure(Inbox* inbox, const ibv_wc& wc) noexcept {
  if (inbox != nullptr && inbox->channel != nullptr && wc.status != IBV_WC_SUCCESS)
    inbox->channel->receive_failed(wc);
}

Inbox* SharedReceives::inbox_of(std::uint32_t number) const noexcept {
  const std::size_t mask = table_.size() - 1;
  for (std::size_t place = place_of(number);; place = (place + 1) & mask) {
    const Entry& entry = table_[place];
    if (entry.number == number) return entry.inbox;
    if (entry.number == 0) return nullptr;
  }
}

void SharedReceives::insert(Entry entry) noexcept {
  const std::size_t mask = table_.size() - 1;
  std::size_t place = place_of(entry.number);
  while (table_[place].number != 0) place = (place + 1) & mask;
  table_[place] = entry;
}

void SharedReceives::enrol(Inbox& inbox, QpNumber queue_pair) {
  if (2 * (entries_ + 1) > table_.size()) {
    std::vector<Entry> former(2 * table_.size());
    former.swap(table_);
    --shift_;
    for (const Entry& each : former)
      if (each.number != 0) insert(each);
  }
  retired_.reserve(entries_ + 1);
  inbox.number = static_cast<std::uint32_t>(queue_pair);
  inbox.latest = latest;
  insert({inbox.number, &inbox});
  ++entries_;
  if (!queue) post_to(inbox);
}

void SharedReceives::forget(Inbox& inbox) noexcept {
  if (inbox.number == 0) return;
  const std::size_t mask = table_.size() - 1;
  std::size_t hole = place_of(inbox.number);
  while (table_[hole].number != inbox.number) hole = (hole + 1) & mask;
  inbox.number = 0;
  --entries_;
  if (inbox.held != 0)  // The device may keep them for ever.
    for (const Slot& slot : run_)
      if (block_of(slot).holder == &inbox) block_of(slot).holder = nullptr;
  // Moves up the entries that were put further back because this place was taken.
  for (std::size_t place = (hole + 1) & mask; table_[place].number != 0;
       place = (place + 1) & mask) {
    const std::size_t wanted = place_of(table_[place].number);
    if (((place - wanted) & mask) < ((place - hole) & mask)) continue;
    table_[hole] = table_[place];
    hole = place;
  }
  table_[hole] = {};
}

// ---- Queue pairs that went ----------------------------------------------------------------------

void SharedReceives::retire(QueuePair queue_pair, const Inbox& inbox,
                            Clock::time_point until) noexcept {
  retired_.push_back({std::move(queue_pair), inbox.latest, until});
  if (core.driver == nullptr) {
    retired_.back().until = {};  // Nobody would look again.
    look_at_retired();
  } else if (timer_.heap == nullptr) {
    core.timers.make_room(core.channel_count + 1);
    core.timers.set(timer_, to_number(Clock::now() + kFirstLook));
  }
}

void SharedReceives::look_at_retired() noexcept {
  if (retired_.empty()) return;
  const Clock::time_point now = Clock::now();
  const auto is_done = [now](const Retired& each) {
    return now >= each.until || each.queue_pair.events().has(EventType::last_receive_reached);
  };
  if (std::ranges::any_of(retired_, is_done)) {
    // Files what they have completed, so that it does not go with them.
    for (std::uint64_t looks = 0; looks <= core.slab.mask() && core.drain() > 0; ++looks) {
    }
    std::erase_if(retired_, [&](const Retired& each) {
      if (!is_done(each)) return false;
      if (!each.queue_pair.events().has(EventType::last_receive_reached)) lost_before_ = sequence_;
      return true;
    });
    recover();
  }
  if (retired_.empty() || core.driver == nullptr) return core.timers.remove(timer_);
  Clock::time_point next = Clock::time_point::max();
  for (const Retired& each : retired_) next = std::min(next, each.until);
  core.timers.set(timer_, to_number(next));
}

void SharedReceives::vanished(Inbox& inbox, bool proven) noexcept {
  forget(inbox);
  lost_before_ = sequence_;
  is_certain_ &= proven;
  recover();
}

void SharedReceives::recover() noexcept {
  if (lost_before_ == 0 || !is_certain_ || !queue) return;
  std::uint64_t oldest = latest;
  for (const Entry& each : table_)
    if (each.number != 0) oldest = std::min(oldest, each.inbox->latest);
  for (const Retired& each : retired_) oldest = std::min(oldest, each.latest);
  std::uint32_t found = 0;
  for (Slot& slot : run_) {
    Block& block = block_of(slot);
    if (slot.state != SlotState::shared || block.sequence >= oldest) continue;
    land(slot, 0);
    come_home(block);
    ++found;
  }
  if (oldest >= lost_before_) lost_before_ = 0;  // None can be missing now.
  if (found == 0) return;
  log(LogLevel::info, "receives that a queue pair took with it are posted anew");
  post();
}

}  // namespace verbatim::detail
