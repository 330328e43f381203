// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Watches the ranks that `verbatim run` started: their output, their ends, and the signals
/// for them.
#include <signal.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rank_output.hpp"
#include "run.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"

namespace verbatim::cli {

/// One thread: it starts the ranks, and they are killed when it ends. While it lives, it handles
/// SIGINT, SIGTERM and SIGHUP for this process, which ignores SIGPIPE.
class Supervisor {
 public:
  explicit Supervisor(const RunOptions& options);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  /// Kills the remaining ranks.
  ~Supervisor();

  /// 0, or an errno if descriptors or the like are lacking.
  [[nodiscard]] int prepare();
  /// Starts one more rank, unless the others must already end. Returns 0 or the errno.
  [[nodiscard]] int start(std::vector<std::string>& arguments,
                          std::vector<std::string>& environment);
  /// Waits until all ranks are gone; returns the status of run(). Calls `on_end` for each rank that
  /// has ended.
  [[nodiscard]] int wait(std::function<void(std::uint32_t rank)> on_end);
  /// Sets the status of a failure of our own, and ends all ranks that were started.
  void give_up(int status);

 private:
  using Clock = std::chrono::steady_clock;
  enum Stream : std::uint8_t { output, errors };
  struct Process {
    pid_t id = 0;  ///< 0 when it is gone.
    std::array<RankOutput, 2> streams;
  };

  [[nodiscard]] int open_stream(Process& process, Stream stream, detail::FileDescriptor& theirs);
  void step(int timeout_ms);
  void take_signals();
  void reap();
  void ended(std::uint32_t rank, const siginfo_t& how);
  [[nodiscard]] Clock::duration grace() const;
  void end_all();
  void kill_all(int signal) noexcept;
  void drain(Process& process);
  void forward(Stream stream, std::string_view lines);
  void say(const std::string& what);

  const RunOptions options_;
  std::function<void(std::uint32_t)> on_end_ = [](std::uint32_t) {};
  sigset_t mask_{};  ///< The mask before.
  struct sigaction on_pipe_{};
  struct rlimit descriptors_{};
  detail::FileDescriptor poll_;
  detail::FileDescriptor signals_;
  detail::FileDescriptor nothing_;  ///< What the ranks read: /dev/null.
  std::vector<Process> processes_;
  std::uint32_t alive_ = 0;
  std::optional<int> status_;                 ///< Of the first rank that failed.
  std::optional<Clock::time_point> kill_at_;  ///< Set when they have been asked to end.
  std::optional<Clock::time_point>
      drop_at_;  ///< From then on our output need not be read any more.
  sigset_t forwarded_{};
  bool has_ended_ = false;           ///< A child has ended, and we have not yet looked which.
  std::array<bool, 2> is_closed_{};  ///< Nobody reads our own output any more.
};

}  // namespace verbatim::cli
