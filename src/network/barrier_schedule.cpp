// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/network/barrier_schedule.hpp"

#include <algorithm>
#include <compare>
#include <map>

namespace verbatim {
namespace {

/// Notices go up to the root and down again. If all ranks are children of the root, this is the
/// centralized barrier.
std::vector<Step> tree(std::uint32_t children, std::uint32_t size, std::uint32_t index) {
  std::vector<Step> steps;
  const std::uint64_t first = std::uint64_t{index} * children + 1;
  const std::uint64_t end = std::min<std::uint64_t>(first + children, size);
  const auto add = [&](bool notify, std::uint64_t other) {
    steps.push_back({.notify = notify, .index = static_cast<std::uint32_t>(other)});
  };
  for (std::uint64_t child = first; child < end; ++child) add(false, child);
  if (index != 0) {
    const std::uint32_t parent = (index - 1) / children;
    add(true, parent);
    add(false, parent);
  }
  for (std::uint64_t child = first; child < end; ++child) add(true, child);
  return steps;
}

std::vector<Step> dissemination(std::uint32_t size, std::uint32_t index) {
  std::vector<Step> steps;
  for (std::uint64_t distance = 1; distance < size; distance *= 2) {
    const auto at = [&](std::uint64_t from) { return static_cast<std::uint32_t>(from % size); };
    steps.push_back({.notify = true, .index = at(index + distance)});
    steps.push_back({.notify = false, .index = at(index + size - distance)});
  }
  return steps;
}

struct Host {
  std::uint64_t high;
  std::uint64_t low;
  friend auto operator<=>(const Host&, const Host&) = default;
};
struct Load {
  std::uint32_t ranks = 0;
  std::uint32_t processors = UINT32_MAX;  ///< The fewest that any of its ranks may use.
};

}  // namespace

std::string_view to_string(BarrierAlgorithm algorithm) noexcept {
  switch (algorithm) {
    case BarrierAlgorithm::automatic: return "automatic";
    case BarrierAlgorithm::centralized: return "centralized";
    case BarrierAlgorithm::binary_tree: return "binary tree";
    case BarrierAlgorithm::dissemination: return "dissemination";
  }
  return "unknown";
}

std::vector<Step> schedule(BarrierAlgorithm algorithm, std::uint32_t size, std::uint32_t index) {
  if (size < 2) return {};
  switch (algorithm) {
    case BarrierAlgorithm::centralized: return tree(size, size, index);
    case BarrierAlgorithm::binary_tree: return tree(2, size, index);
    case BarrierAlgorithm::automatic:
    case BarrierAlgorithm::dissemination: break;
  }
  return dissemination(size, index);
}

std::vector<std::uint32_t> partners(BarrierAlgorithm algorithm, std::uint32_t size,
                                    std::uint32_t index) {
  std::vector<std::uint32_t> others;
  for (const Step& step : schedule(algorithm, size, index)) others.push_back(step.index);
  std::ranges::sort(others);
  const auto rest = std::ranges::unique(others);
  others.erase(rest.begin(), rest.end());
  return others;
}

bool is_oversubscribed(std::span<const Member> members) {
  std::map<Host, Load> hosts;
  for (const Member& member : members) {
    if (!member.present) continue;
    Load& load = hosts[{member.host_high, member.host_low}];
    ++load.ranks;
    load.processors = std::min<std::uint32_t>(load.processors, member.processors);
  }
  return std::ranges::any_of(
      hosts, [](const auto& each) { return each.second.ranks > each.second.processors; });
}

BarrierAlgorithm choose(std::span<const Member> members) {
  return is_oversubscribed(members) ? BarrierAlgorithm::centralized
                                    : BarrierAlgorithm::dissemination;
}

}  // namespace verbatim
