// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/watch.hpp"

#include <fmt/format.h>
#include <sched.h>

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
  if (since_ == Clock::time_point{}) since_ = now;
  if (now - since_ > patience_)
    throw Failure{fmt::format("the other end has not answered for {:g} s",
                              std::chrono::duration<double>(patience_).count())};
  if (now - asked_ < kBetweenQuestions) return true;
  asked_ = now;
  return !control_.is_readable();
}

}  // namespace verbatim::cli
