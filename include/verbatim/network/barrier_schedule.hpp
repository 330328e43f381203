// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The plan of a barrier: who notifies whom, in which order. Pure; barrier.hpp runs it.
///
/// | algorithm       | total notices  | rounds      | for                                        |
/// |-----------------|----------------|-------------|--------------------------------------------|
/// | `centralized`   | 2 (n - 1)      | 2           | more ranks than processors: each must be   |
/// |                 |                |             | scheduled only once                        |
/// | `binary_tree`   | 2 (n - 1)      | 2 log2 n    | a root that must not be busy               |
/// | `dissemination` | n ceil(log2 n) | ceil(log2 n)| a processor for each rank                  |
///
/// In each of them a rank notifies another at most once. The executor relies on that: see flag.hpp.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "verbatim/network/exchanger.hpp"

namespace verbatim {

enum class BarrierAlgorithm : std::uint8_t { automatic, centralized, binary_tree, dissemination };

[[nodiscard]] std::string_view to_string(BarrierAlgorithm algorithm) noexcept;

/// One step of a member, in order.
struct Step {
  bool notify;          ///< If false, it waits for a notice.
  std::uint32_t index;  ///< The other member, as an index into the list of the barrier's ranks.

  friend bool operator==(const Step&, const Step&) = default;
};

/// The steps of member `index` of `size`; none if it is alone. `automatic` counts as
/// `dissemination`: call choose() before to make a choice.
[[nodiscard]] std::vector<Step> schedule(BarrierAlgorithm algorithm, std::uint32_t size,
                                         std::uint32_t index);

/// The members that `index` notifies or waits for, in order: it must be connected to these.
[[nodiscard]] std::vector<std::uint32_t> partners(BarrierAlgorithm algorithm, std::uint32_t size,
                                                  std::uint32_t index);

/// Whether a host has more ranks than processors.
[[nodiscard]] bool is_oversubscribed(std::span<const Member> members);

/// What `automatic` means for them: `centralized` if they are oversubscribed, else `dissemination`.
/// The result is the same at every rank, because all have the same information.
[[nodiscard]] BarrierAlgorithm choose(std::span<const Member> members);

}  // namespace verbatim
