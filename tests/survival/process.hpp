// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The processes of a survival test: this program again, executed with `--role NAME ...`.
///
/// Parent and child talk in single bytes over a socket, which is the child's descriptor 3.
/// Descriptors from 4 on are links to other children, in the order in which they were passed. Every
/// wait is bounded.
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/device_under_test.hpp"

namespace verbatim::test {

inline constexpr int kControlFd = 3;
inline constexpr int kFirstLinkFd = 4;
/// A user who owns nothing.
inline constexpr uid_t kNobody = 65534;

/// Both ends of a stream; neither survives an exec unless it is passed on.
[[nodiscard]] std::pair<int, int> socket_pair();

/// One end of a control socket.
class Control {
 public:
  explicit Control(int fd) noexcept : fd_(fd) {}
  void say(char word) const;
  /// The next byte. Throws if none comes in time or the other side is gone.
  [[nodiscard]] char hear(std::chrono::milliseconds patience = kPatience) const;
  /// The next byte, if it is there already.
  [[nodiscard]] std::optional<char> overhear() const;

 private:
  int fd_;
};

class Process {
 public:
  /// This process closes the links once the child has them.
  [[nodiscard]] static Process start(std::vector<std::string> role, std::vector<int> links = {});
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();  ///< Kills it if it still runs.

  [[nodiscard]] const Control& control() const noexcept { return control_; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Kills with SIGKILL; returns when it is gone.
  void kill();
  /// Returns when the kernel has stopped it.
  void wait_until_stopped() const;
  void resume() const;
  /// Like wait_for_end(), but empty if it still runs.
  [[nodiscard]] std::optional<int> poll_end();
  /// The exit status, or 128 + the signal that ended it. Kills it if it does not end in time.
  [[nodiscard]] int wait_for_end();

 private:
  Process(pid_t pid, int fd) noexcept : pid_(pid), fd_(fd), control_(fd) {}
  pid_t pid_;
  int fd_;
  Control control_;
};

/// The device's helper thread in a process, which copies for others; 0 if there is none.
[[nodiscard]] pid_t helper_of(pid_t process);

/// A separate directory for the software device, named by VERBATIM_SOFT_DIR while this lives.
class SoftDirectory {
 public:
  /// Below `parent`, or in shared memory by default.
  explicit SoftDirectory(const std::string& parent = {});
  SoftDirectory(const SoftDirectory&) = delete;
  SoftDirectory& operator=(const SoftDirectory&) = delete;
  ~SoftDirectory();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Whether nothing is left of it.
  [[nodiscard]] bool is_gone() const;

 private:
  std::string path_;
};

/// In the child: plays the role that the first word names (role.hpp) and returns the exit status.
[[nodiscard]] int play_role(const std::vector<std::string>& words);

// The roles of survival_tests; each is implemented in the file of its test.
[[nodiscard]] int play_mesh(const std::vector<std::string>& role);
[[nodiscard]] int play_holder(const std::vector<std::string>& role);
[[nodiscard]] int play_idle(const std::vector<std::string>& role);
[[nodiscard]] int play_resident(const std::vector<std::string>& role);
[[nodiscard]] int play_path(const std::vector<std::string>& role);
[[nodiscard]] int play_victim(const std::vector<std::string>& role);

}  // namespace verbatim::test
