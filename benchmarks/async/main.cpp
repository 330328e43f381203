// SPDX-License-Identifier: MIT OR Apache-2.0
//
// async_driver echo KIND CHANNELS BUSY ROUNDS   BUSY of CHANNELS pairs echo ROUNDS times each.
//                                                callgrind --toggle-collect=async_measured counts
//                                                the instructions of exactly these echoes.
// async_driver idle CHANNELS SECONDS            how often the process wakes up while nothing comes
// async_driver memory KIND CHANNELS             how much each channel takes
// async_driver round_trip KIND CHANNELS ROUNDS  how long an echo between two threads takes
//
// KIND: `reactor`; `shared` for a reactor with shared receives; or `blocking` for channels with
// separate completion queues (not for `memory`). Prints JSON to stdout.
#include <sys/resource.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "world.hpp"

namespace {

using namespace verbatim::async_bench;

int run(const verbatim::ProtectionDomain& domain, const std::vector<std::string_view>& words) {
  const auto number = [&](std::size_t at) {
    long value = 0;
    std::from_chars(words[at].begin(), words[at].end(), value);
    return value;
  };
  const auto count = [&](std::size_t at) { return static_cast<std::size_t>(number(at)); };
  if (words.size() == 5 && words[0] == "echo")
    return echo(domain, words[1], count(2), count(3), number(4));
  if (words.size() == 3 && words[0] == "idle") return idle(domain, count(1), number(2));
  if (words.size() == 3 && words[0] == "memory") return memory(domain, words[1], count(2));
  if (words.size() == 4 && words[0] == "round_trip")
    return round_trip(domain, words[1], count(2), number(3));
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  // A channel with its own completion queue needs two descriptors.
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);

  const auto domain = need(need(verbatim::open_device("soft0")).allocate_domain());
  const int status = run(domain, {argv + 1, argv + argc});
  if (status == 2)
    std::fputs(
        "usage: async_driver echo KIND CHANNELS BUSY ROUNDS | idle CHANNELS SECONDS | "
        "memory KIND CHANNELS | round_trip KIND CHANNELS ROUNDS\n",
        stderr);
  std::fflush(stdout);
  std::_Exit(status);  // Ending thousands of channels is not measured.
}
