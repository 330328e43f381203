// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbs/unaddressable.hpp"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "verbatim/base/dma_model.hpp"

namespace verbatim::detail {
namespace {

using Key = std::pair<const ibv_context*, std::uint32_t>;

struct Table {
  std::mutex mutex;
  std::set<Key> keys;
  std::atomic<std::size_t> count{0};  ///< Usually 0, and then nothing is locked.
};

Table& table() noexcept {
  // Never destroyed: regions may be. NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): no table
  static Table& instance = *new Table;  // is no checker, and only builds with one have it.
  return instance;
}

}  // namespace

Unaddressable::Unaddressable(const ibv_mr* region) {
  if constexpr (!dma::kModelled) return;
  const std::lock_guard lock{table().mutex};
  table().keys.insert({region->context, region->lkey});
  table().count = table().keys.size();
  context_ = region->context;
  key_ = region->lkey;
}
Unaddressable::Unaddressable(Unaddressable&& other) noexcept
    : context_(std::exchange(other.context_, nullptr)), key_(other.key_) {}
Unaddressable& Unaddressable::operator=(Unaddressable&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(key_, other.key_);
  return *this;
}
Unaddressable::~Unaddressable() {
  if (context_ == nullptr) return;
  const std::lock_guard lock{table().mutex};
  table().keys.erase({context_, key_});
  table().count = table().keys.size();
}

bool is_addressable(const ibv_context* context, std::uint32_t local_key) noexcept {
  if (table().count == 0) return true;
  const std::lock_guard lock{table().mutex};
  return !table().keys.contains({context, local_key});
}

}  // namespace verbatim::detail
