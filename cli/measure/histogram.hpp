// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How often each time was measured: no allocation, and every time within 1.6 %.
///
/// Buckets double in width with each power of two and have 64 steps in between. The least and the
/// greatest time are kept exactly.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace verbatim::cli {

class Histogram {
 public:
  /// `times`: how often.
  void add(std::uint64_t time, std::uint64_t times = 1) noexcept {
    buckets_[index_of(time)] += times;
    count_ += times;
    least_ = std::min(least_, time);
    greatest_ = std::max(greatest_, time);
    last_ = time;
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t least() const noexcept { return count_ == 0 ? 0 : least_; }
  [[nodiscard]] std::uint64_t greatest() const noexcept { return greatest_; }
  [[nodiscard]] std::uint64_t last() const noexcept { return last_; }

  /// The time that this part of all measured ones does not exceed: 0.5 is the median.
  [[nodiscard]] double percentile(double fraction) const noexcept {
    if (count_ == 0) return 0;
    const auto rank = std::clamp<std::uint64_t>(
        static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_))), 1, count_);
    if (rank == count_) return static_cast<double>(greatest_);
    std::uint64_t seen = 0;
    std::size_t index = 0;
    while ((seen += buckets_[index]) < rank) ++index;
    return std::clamp(middle_of(index), static_cast<double>(least_),
                      static_cast<double>(greatest_));
  }

 private:
  static constexpr unsigned kStepBits = 6;
  static constexpr std::uint64_t kSteps = std::uint64_t{1} << kStepBits;
  static constexpr std::size_t kBuckets = kSteps * (64 - kStepBits + 1);

  static std::size_t index_of(std::uint64_t value) noexcept {
    if (value < kSteps) return value;
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - kStepBits - 1;
    return kSteps * shift + (value >> shift);
  }
  static double middle_of(std::size_t index) noexcept {
    if (index < 2 * kSteps) return static_cast<double>(index);
    const auto shift = index / kSteps - 1;
    const double width = std::ldexp(1.0, static_cast<int>(shift));
    return (static_cast<double>(index - kSteps * shift) + 0.5) * width;
  }

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t least_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t greatest_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace verbatim::cli
