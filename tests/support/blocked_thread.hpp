// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A thread that sleeps in a blocking call, and can be taken out of it.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "support/completions.hpp"

namespace verbatim::test {

/// Runs `call` once in a separate thread. If nothing else ends the call, a signal does: `call` must
/// return when its system call fails with EINTR.
class BlockedThread {
 public:
  explicit BlockedThread(std::function<void()> call) : call_(std::move(call)) {
    struct sigaction nothing{};
    nothing.sa_handler = [](int) {};  // No SA_RESTART: the call ends.
    sigaction(SIGUSR2, &nothing, nullptr);
    if (pthread_create(&thread_, nullptr, &BlockedThread::run, this) != 0)
      give_up("pthread_create", Where::current());
  }
  BlockedThread(const BlockedThread&) = delete;
  BlockedThread& operator=(const BlockedThread&) = delete;
  ~BlockedThread() { join(); }

  /// Returns when the thread sleeps in the kernel, most likely in its call.
  [[nodiscard]] bool sleeps() const {
    return eventually([&] { return id_.load() != 0 && (is_over() || state() == 'S'); });
  }
  [[nodiscard]] bool is_over() const { return over_.load(); }
  [[nodiscard]] bool ends_within(std::chrono::nanoseconds patience) const {
    return eventually([&] { return is_over(); }, patience);
  }
  void cancel() const { pthread_cancel(thread_); }

  /// Whether the thread ended because it was cancelled.
  bool join() {
    if (joined_) return false;
    joined_ = true;
    // Repeatedly, because a signal before the call blocks is lost.
    const bool ended = eventually([&] {
      if (!is_over()) pthread_kill(thread_, SIGUSR2);
      usleep(1000);  // wait: between two signals, for the thread to return
      return is_over();
    });
    if (!ended) give_up("a thread does not return from its call", Where::current());
    void* result = nullptr;
    pthread_join(thread_, &result);
    return result == PTHREAD_CANCELED;
  }

 private:
  static void* run(void* self) {
    auto& thread = *static_cast<BlockedThread*>(self);
    // Also when the thread is cancelled, because its stack is unwound.
    struct Over {
      ~Over() { flag.store(true); }
      std::atomic<bool>& flag;
    } const over{thread.over_};
    thread.id_.store(gettid());
    thread.call_();
    return nullptr;
  }
  /// The letter after the name, which is in parentheses.
  [[nodiscard]] char state() const {
    std::ifstream file("/proc/self/task/" + std::to_string(id_.load()) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t end = text.rfind(')');
    return end == std::string::npos || end + 2 >= text.size() ? '?' : text[end + 2];
  }

  std::function<void()> call_;
  std::atomic<pid_t> id_{0};
  std::atomic<bool> over_{false};
  bool joined_ = false;
  pthread_t thread_{};
};

}  // namespace verbatim::test
