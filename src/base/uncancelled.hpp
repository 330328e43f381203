// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file While it lives, the thread is not cancelled.
///
/// A thread may be cancelled in open(), write(), close() and their like. Where we call them on our
/// own account they never wait for anything, and a stack that is unwound there would leave a
/// descriptor behind, or meet a function that promised not to throw.
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
