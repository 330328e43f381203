// SPDX-License-Identifier: MIT OR Apache-2.0
#include "perftest.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "measure/failure.hpp"
#include "measure/interrupt.hpp"
#include "measure/processors.hpp"
#include "spawn.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"

namespace verbatim::cli {
namespace {

using Clock = std::chrono::steady_clock;
using verbatim::detail::FileDescriptor;
constexpr std::chrono::seconds kLimit{60};

int free_port() {
  const FileDescriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  auto* const address = reinterpret_cast<sockaddr*>(&where);
  if (bind(socket.get(), address, sizeof where) != 0 ||
      getsockname(socket.get(), address, &size) != 0)
    throw Failure{fmt::format("no free port for perftest: {}", std::strerror(errno))};
  return ntohs(where.sin_port);
}

/// Without connecting: the server would take that for its client.
bool listens(int port) {
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file{table};
    for (std::string line; std::getline(file, line);) {
      std::istringstream fields{line};
      std::string number;
      std::string local;
      std::string remote;
      std::string state;
      fields >> number >> local >> remote >> state;
      if (local.ends_with(wanted) && state == "0A") return true;
    }
  }
  return false;
}

/// A program whose output is read; it ends with this object.
class Program {
 public:
  Program(std::vector<std::string> words, int processor) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Failure{fmt::format("pipe: {}", std::strerror(errno))};
    output_ = FileDescriptor{ends[0]};
    const FileDescriptor theirs{ends[1]};
    const FileDescriptor nothing{open("/dev/null", O_RDONLY | O_CLOEXEC)};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    Child child{.arguments = arguments.data(),
                .environment = environ,
                .input = nothing.get(),
                .output = theirs.get(),
                .errors = theirs.get(),
                .signals = {},
                .on_pipe = {},
                .descriptors = {}};
    sigemptyset(&child.signals);
    child.on_pipe.sa_handler = SIG_DFL;
    getrlimit(RLIMIT_NOFILE, &child.descriptors);
    // A child begins where its parent is.
    cpu_set_t here;
    sched_getaffinity(0, sizeof here, &here);
    if (processor >= 0) static_cast<void>(pin_to(processor));
    process_ = spawn(child);
    sched_setaffinity(0, sizeof here, &here);
    if (process_ == -ENOENT)
      throw Failure{words[0] + " is not there: install Debian's package perftest"};
    if (process_ < 0) throw Failure{fmt::format("{}: {}", words[0], std::strerror(-process_))};
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (process_ <= 0) return;
    kill(-process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  [[nodiscard]] bool has_ended() const noexcept {
    siginfo_t how{};
    return waitid(P_PID, static_cast<id_t>(process_), &how, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           how.si_pid != 0;
  }
  /// What it printed until its end; nothing is left of it then.
  std::string finish(Clock::time_point deadline) {
    std::string text;
    for (;;) {
      pollfd one{.fd = output_.get(), .events = POLLIN, .revents = 0};
      if (is_interrupted()) throw Interrupted{};
      if (Clock::now() > deadline) throw Failure{"perftest takes too long"};
      if (poll(&one, 1, 100) <= 0) continue;
      char block[4096];
      const ssize_t got = read(output_.get(), block, sizeof block);
      if (got <= 0) break;
      text.append(block, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  FileDescriptor output_;
  pid_t process_ = -1;
};

std::uint64_t iterations(const PerftestOptions& options, const Case& each) {
  constexpr std::uint64_t kLeast = 5;  // perftest takes no fewer.
  if (options.count != 0) return std::max(options.count, kLeast);
  return each.bytes <= 4096 ? 20000 : each.bytes <= 65536 ? 5000 : 1000;
}

Rival run(const PerftestOptions& options, const Case& each, bool is_latency) {
  const int port = free_port();
  std::vector<std::string> words;
  if (options.preloads) words = {"/proc/self/exe", "preload", "--"};
  words.insert(words.end(),
               {fmt::format("ib_{}_{}", to_string(each.verb), is_latency ? "lat" : "bw"), "-F",
                "-d", options.device, "-p", std::to_string(port), "-n",
                std::to_string(iterations(options, each))});
  const auto add = [&](std::initializer_list<std::string> more) {
    words.insert(words.end(), more);
  };
  if (each.verb != Verb::atomic) add({"-s", std::to_string(each.bytes)});
  if (!is_latency) add({"-t", std::to_string(each.depth), "-q", std::to_string(each.queue_pairs)});
  if (!is_latency && each.batch > 1) add({"-l", std::to_string(each.batch)});
  if (each.verb == Verb::send || each.verb == Verb::write)
    add({"-I", each.inlined ? std::to_string(each.bytes) : "0"});

  const auto deadline = Clock::now() + kLimit;
  Program server{words, options.server_processor};
  while (!listens(port)) {
    constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 5'000'000};
    if (is_interrupted()) throw Interrupted{};
    if (Clock::now() > deadline || server.has_ended())
      throw Failure{"perftest failed: " + server.finish(deadline)};
    nanosleep(&kNap, nullptr);
  }
  words.emplace_back("127.0.0.1");
  Program client{words, options.client_processor};
  const std::string output = client.finish(deadline);
  Rival result = parse_perftest(output, is_latency);
  if (!result.p50_us && !result.mib_per_s) throw Failure{"perftest failed: " + output};
  return result;
}

}  // namespace

Rival run_perftest(const PerftestOptions& options, const Case& each) {
  Rival result;
  if (options.figures.latency) result = run(options, each, true);
  if (options.figures.bandwidth) result.mib_per_s = run(options, each, false).mib_per_s;
  return result;
}

Rival parse_perftest(std::string_view output, bool is_latency) {
  // The row of figures is the one that has nothing but numbers. Latency: bytes, iterations, least,
  // greatest, median, mean, deviation, p99, p99.9. Bandwidth: bytes, iterations, peak, mean, rate.
  std::istringstream lines{std::string{output}};
  Rival result;
  for (std::string line; std::getline(lines, line);) {
    std::vector<double> row;
    std::istringstream fields{line};
    std::string field;
    bool is_row = true;
    while (fields >> field) {
      char* end = nullptr;
      row.push_back(std::strtod(field.c_str(), &end));
      is_row = is_row && *end == '\0';
    }
    if (!is_row) continue;
    if (is_latency && row.size() >= 9) {
      result.p50_us = row[4];
      result.p99_us = row[7];
    } else if (!is_latency && row.size() >= 4) {
      result.mib_per_s = row[3];
    }
  }
  return result;
}

}  // namespace verbatim::cli
