// SPDX-License-Identifier: MIT OR Apache-2.0
#include "supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "spawn.hpp"

namespace verbatim::cli {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kSignalled = 128;  // What a shell adds to a signal's number.
constexpr std::uint64_t kSignals = UINT64_MAX;
constexpr int kForEver = -1;
constexpr rlim_t kOwnDescriptors = 64;

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

/// For poll(2).
template <class Time>
int milliseconds_until(const std::optional<Time>& when) {
  if (!when) return kForEver;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*when - Time::clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

/// A child that has ended, if there is one. It is not reaped yet, so its process id cannot be
/// reused.
bool look_for_ended(siginfo_t& how) noexcept {
  how.si_pid = 0;
  return waitid(P_ALL, 0, &how, WEXITED | WNOHANG | WNOWAIT) == 0 && how.si_pid != 0;
}

}  // namespace

Supervisor::Supervisor(const RunOptions& options) : options_(options) {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int each : kForwarded) sigaddset(&ours, each);
  sigaddset(&ours, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ours, &mask_);
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &on_pipe_);
  sigemptyset(&forwarded_);
  getrlimit(RLIMIT_NOFILE, &descriptors_);
  signals_ = detail::FileDescriptor{signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK)};
  poll_ = detail::FileDescriptor{epoll_create1(EPOLL_CLOEXEC)};
  nothing_ = detail::FileDescriptor{open("/dev/null", O_RDONLY | O_CLOEXEC)};
}

Supervisor::~Supervisor() {
  kill_all(SIGKILL);
  for (Process& process : processes_)
    if (process.id > 0) waitpid(process.id, nullptr, 0);
  sigaction(SIGPIPE, &on_pipe_, nullptr);
  sigprocmask(SIG_SETMASK, &mask_, nullptr);
}

int Supervisor::prepare() {
  if (signals_.get() < 0 || poll_.get() < 0 || nothing_.get() < 0) return EMFILE;
  // Two streams for each rank, and its session with the coordinator.
  const rlim_t needed = rlim_t{3} * options_.ranks + kOwnDescriptors;
  struct rlimit raised = descriptors_;
  raised.rlim_cur = std::max(raised.rlim_cur, std::min(needed, raised.rlim_max));
  if (raised.rlim_cur < needed) return EMFILE;
  if (setrlimit(RLIMIT_NOFILE, &raised) != 0) return errno;
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kSignals}};
  if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, signals_.get(), &event) != 0) return errno;
  processes_.reserve(options_.ranks);
  return 0;
}

int Supervisor::open_stream(Process& process, Stream stream, detail::FileDescriptor& theirs) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  theirs = detail::FileDescriptor{ends[1]};
  const std::size_t rank = processes_.size();
  process.streams[stream] = RankOutput{ends[0], static_cast<std::uint32_t>(rank)};
  epoll_event event{.events = EPOLLIN, .data = {.u64 = rank * 2 + stream}};
  // Only for our end: the program's end blocks, as it expects.
  if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ||
      epoll_ctl(poll_.get(), EPOLL_CTL_ADD, ends[0], &event) != 0)
    return errno;
  return 0;
}

int Supervisor::start(std::vector<std::string>& arguments, std::vector<std::string>& environment) {
  step(0);
  if (kill_at_) return 0;
  Process process;
  std::array<detail::FileDescriptor, 2> theirs;
  for (const Stream stream : {output, errors})
    if (options_.prefix)
      if (const int failed = open_stream(process, stream, theirs[stream]); failed != 0)
        return failed;
  const auto words = pointers(arguments);
  const auto variables = pointers(environment);
  process.id = spawn({.arguments = words.data(),
                      .environment = variables.data(),
                      .input = nothing_.get(),
                      .output = options_.prefix ? theirs[output].get() : STDOUT_FILENO,
                      .errors = options_.prefix ? theirs[errors].get() : STDERR_FILENO,
                      .signals = mask_,
                      .on_pipe = on_pipe_,
                      .descriptors = descriptors_});
  if (process.id < 0) return -process.id;
  processes_.push_back(std::move(process));
  ++alive_;
  return 0;
}

void Supervisor::give_up(int status) {
  status_ = status;
  end_all();
}

int Supervisor::wait(std::function<void(std::uint32_t rank)> on_end) {
  on_end_ = std::move(on_end);
  for (std::size_t rank = 0; rank < processes_.size(); ++rank)  // Ended during the start.
    if (processes_[rank].id == 0) on_end_(static_cast<std::uint32_t>(rank));
  while (alive_ > 0) step(milliseconds_until(kill_at_));
  return status_.value_or(0);
}

void Supervisor::step(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(poll_.get(), events.data(), events.size(), timeout_ms);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t which = events[static_cast<std::size_t>(i)].data.u64;
    if (which == kSignals) {
      take_signals();
      continue;
    }
    std::string lines;
    const auto stream = static_cast<Stream>(which % 2);
    processes_[which / 2].streams[stream].read(lines);
    forward(stream, lines);
  }
  if (has_ended_) reap();
  if (!kill_at_ || Clock::now() < *kill_at_) return;
  kill_all(SIGKILL);
  kill_at_ = Clock::time_point::max();
}

void Supervisor::take_signals() {
  signalfd_siginfo signal{};
  while (read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    const int number = static_cast<int>(signal.ssi_signo);
    if (number == SIGCHLD) {
      has_ended_ = true;
      continue;
    }
    kill_all(number);
    // The second request means that the user does not want to wait for programs that ignore the
    // first.
    const bool is_second = sigismember(&forwarded_, number) == 1;
    if (is_second && number != SIGHUP && !kill_at_) {
      status_ = status_.value_or(kSignalled + number);
      end_all();
    }
    if (number != SIGHUP && !drop_at_) drop_at_ = Clock::now() + grace();
    sigaddset(&forwarded_, number);
  }
}

void Supervisor::reap() {
  has_ended_ = false;
  for (siginfo_t how{}; look_for_ended(how);) {
    const auto found = std::ranges::find(processes_, how.si_pid, &Process::id);
    if (found != processes_.end()) {
      kill(-how.si_pid, SIGKILL);  // What it left behind.
      drain(*found);
    }
    waitpid(how.si_pid, nullptr, 0);
    if (found == processes_.end()) continue;
    found->id = 0;
    --alive_;
    ended(static_cast<std::uint32_t>(found - processes_.begin()), how);
  }
}

void Supervisor::ended(std::uint32_t rank, const siginfo_t& how) {
  on_end_(rank);
  const bool has_exited = how.si_code == CLD_EXITED;
  if (has_exited && how.si_status == 0) return;
  const bool is_ours = kill_at_ || (!has_exited && sigismember(&forwarded_, how.si_status) == 1);
  if (!is_ours)
    say("rank " + std::to_string(rank) +
        (has_exited ? " exited with status " + std::to_string(how.si_status)
                    : " was ended by signal " + std::to_string(how.si_status) + " (" +
                          strsignal(how.si_status) + ")"));
  if (!status_) status_ = how.si_status + (has_exited ? 0 : kSignalled);
  if (!options_.keep_going) end_all();
}

Supervisor::Clock::duration Supervisor::grace() const {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>{options_.grace_s});
}

void Supervisor::end_all() {
  if (kill_at_) return;
  kill_all(SIGTERM);
  kill_at_ = Clock::now() + grace();
  if (!drop_at_) drop_at_ = kill_at_;
}

void Supervisor::kill_all(int signal) noexcept {
  for (const Process& process : processes_)
    if (process.id > 0) kill(-process.id, signal);
}

void Supervisor::drain(Process& process) {
  for (const Stream stream : {output, errors}) {
    std::string lines;
    while (process.streams[stream].read(lines)) forward(stream, std::exchange(lines, {}));
    process.streams[stream].finish(lines);
    forward(stream, lines);
  }
}

void Supervisor::forward(Stream stream, std::string_view lines) {
  const int fd = stream == output ? STDOUT_FILENO : STDERR_FILENO;
  while (!lines.empty() && !is_closed_[stream]) {
    // Signals must reach the ranks even while nobody reads their output.
    pollfd either[] = {{.fd = fd, .events = POLLOUT, .revents = 0},
                       {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
    if (poll(either, 2, milliseconds_until(drop_at_)) < 0) continue;
    if (either[1].revents != 0) take_signals();
    if (either[0].revents == 0) {
      is_closed_[stream] = drop_at_ && Clock::now() >= *drop_at_;
      continue;
    }
    // A write of this size does not block.
    const ssize_t put = write(fd, lines.data(), std::min<std::size_t>(lines.size(), PIPE_BUF));
    if (put >= 0)
      lines.remove_prefix(static_cast<std::size_t>(put));
    else
      is_closed_[stream] = errno != EINTR && errno != EAGAIN;
  }
  if (!is_closed_[stream]) return;
  // As if the ranks wrote there themselves: they get a signal or an error.
  for (Process& process : processes_) process.streams[stream] = RankOutput{};
}

void Supervisor::say(const std::string& what) { forward(errors, "verbatim run: " + what + '\n'); }

}  // namespace verbatim::cli
