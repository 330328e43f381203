// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file While it lives, the thread is not cancelled.
///
/// A thread can be cancelled in open(), write(), close() and the like. The library's own calls
/// never wait. Unwinding the stack there would leak a descriptor, or reach a function that is
/// noexcept.
#include <pthread.h>

namespace verbatim {

class Uncancelled {
 public:
  Uncancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace verbatim
