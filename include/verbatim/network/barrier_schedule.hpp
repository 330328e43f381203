// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How a barrier goes: who notifies whom, in which order. Pure; barrier.hpp runs it.
///
/// | algorithm       | notices of all | rounds      | for                                        |
/// |-----------------|----------------|-------------|--------------------------------------------|
/// | `centralized`   | 2 (n - 1)      | 2           | more ranks than processors: each has to be |
/// |                 |                |             | scheduled but once                         |
/// | `binary_tree`   | 2 (n - 1)      | 2 log2 n    | a root that must not be busy               |
/// | `dissemination` | n ceil(log2 n) | ceil(log2 n)| a processor for each rank                  |
///
/// In each of them a rank notifies another at most once. The executor counts on it: see flag.hpp.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "verbatim/network/exchanger.hpp"

namespace verbatim {

enum class BarrierAlgorithm : std::uint8_t { automatic, centralized, binary_tree, dissemination };

[[nodiscard]] std::string_view to_string(BarrierAlgorithm algorithm) noexcept;

/// One of what a member does, in order.
struct Step {
  bool notify;          ///< Else it waits for a notice.
  std::uint32_t index;  ///< Of the other one, in the list of the barrier's ranks.

  friend bool operator==(const Step&, const Step&) = default;
};

/// What member `index` of `size` does; nothing if it is alone. `automatic` counts as
/// `dissemination`: who wants a choice makes it before, with choose().
[[nodiscard]] std::vector<Step> schedule(BarrierAlgorithm algorithm, std::uint32_t size,
                                         std::uint32_t index);

/// Whom member `index` notifies or waits for, in order: those that it has to be connected to.
[[nodiscard]] std::vector<std::uint32_t> partners(BarrierAlgorithm algorithm, std::uint32_t size,
                                                  std::uint32_t index);

/// Whether a host has more ranks than processors.
[[nodiscard]] bool is_oversubscribed(std::span<const Member> members);

/// What `automatic` means for them: `centralized` if they are oversubscribed, else `dissemination`.
/// The same at every rank, because all know the same of the members.
[[nodiscard]] BarrierAlgorithm choose(std::span<const Member> members);

}  // namespace verbatim
