// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/watch.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "measure/failure.hpp"
#include "measure/interrupt.hpp"

namespace verbatim::cli {

bool Watch::look_up() {
  constexpr auto kBetweenQuestions = std::chrono::microseconds{500};
  left_ = spins_;
  // Not where each end has a processor: whoever gives it up on a busy machine gets it back when the
  // peer has given up its own, and the two hardly ever run at the same time.
  if (spins_ == 1) sched_yield();
  if (is_interrupted()) throw Interrupted{};
  const auto now = Clock::now();
  // If this process was stopped, the answer may have come meanwhile, so that time does not count.
  constexpr Clock::duration kMostBetweenLooks = std::chrono::milliseconds{100};
  if (looked_ != Clock::time_point{}) waited_ += std::min(now - looked_, kMostBetweenLooks);
  looked_ = now;
  if (waited_ > patience_)
    throw Failure{fmt::format("the other end has not answered for {:g} s",
                              std::chrono::duration<double>(patience_).count())};
  if (now - asked_ < kBetweenQuestions) return true;
  asked_ = now;
  return !control_.is_readable();
}

}  // namespace verbatim::cli
