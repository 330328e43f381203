// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/interrupt.hpp"

#include <signal.h>

#include <initializer_list>

namespace verbatim::cli {
namespace {

volatile sig_atomic_t caught = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): a
                                   // signal handler reaches nothing else.

extern "C" void on_interrupt(int signal) { caught = signal; }

}  // namespace

void catch_interrupts() noexcept {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) sigaction(each, &action, nullptr);
}

bool is_interrupted() noexcept { return caught != 0; }

int interrupt_status() noexcept { return caught == 0 ? 0 : 128 + static_cast<int>(caught); }

}  // namespace verbatim::cli
