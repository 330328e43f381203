// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file In checked builds: finds two threads that use one channel at the same time.
///
/// It orders nothing, so that ThreadSanitizer still sees races. Handing a channel from thread to
/// thread is allowed. In other builds it is empty.
#include <atomic>
#include <source_location>

#include "verbatim/base/sanitizers.hpp"
#include "verbatim/channel/detail/same_build.hpp"

namespace verbatim::detail {

struct ChannelCore;

#if VERBATIM_IS_CHECKED

/// Part of a channel: the thread that is inside.
struct OneThread {
  std::atomic<int> inside{0};
};

/// A call that uses the channel, from start to end.
class Entry {
 public:
  explicit Entry(ChannelCore& channel,
                 const std::source_location& where = std::source_location::current()) noexcept;
  ~Entry() {
    if (flag_ != nullptr) flag_->store(0, std::memory_order_relaxed);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  std::atomic<int>* flag_ = nullptr;  // Null if an enclosing call has it.
};

#else

struct OneThread {};

class Entry {
 public:
  explicit Entry(ChannelCore&, const std::source_location& = {}) noexcept {}
};

#endif

}  // namespace verbatim::detail
