// SPDX-License-Identifier: MIT OR Apache-2.0
// One rank of a job, for tests of how jobs are started: it finds its identity, joins, exchanges a
// number with all others, meets them and leaves.
//
//    rank_program            prints "rank R of W: sum S"
//    rank_program lose RANK  that rank is killed after they met; the others print "lost RANK"
//    rank_program absent RANK  that rank does not come
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>

#include "verbatim/base/try.hpp"
#include "verbatim/network/bootstrap.hpp"
#include "verbatim/network/exchanger.hpp"

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

vb::Result<void> survive(vb::Exchanger& exchanger, vb::Rank victim) {
  VERBATIM_TRY(exchanger.meet());
  if (exchanger.rank() == victim) kill(getpid(), SIGKILL);
  const auto departure = VERBATIM_TRY(exchanger.verdict(20s));
  std::printf("lost %u\n", departure.rank);
  return {};
}

vb::Result<void> take_part(const std::string& how, vb::Rank who) {
  // Ends after the session, because the launcher has to be told last.
  const auto identity = VERBATIM_TRY(vb::Bootstrap::find(30s));
  auto exchanger =
      VERBATIM_TRY(vb::Exchanger::join(identity, {.timeout = how == "absent" ? 1s : 30s}));
  if (how == "lose") return survive(exchanger, who);
  const auto numbers = VERBATIM_TRY(exchanger.exchange(std::uint64_t{exchanger.rank()} + 1));
  VERBATIM_TRY(exchanger.meet());
  std::printf("rank %u of %u: sum %llu\n", exchanger.rank(), exchanger.world(),
              std::accumulate(numbers.begin(), numbers.end(), 0ull));
  return exchanger.leave(20s);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string how = count > 2 ? arguments[1] : "";
  const auto who = count > 2 ? static_cast<vb::Rank>(std::strtoul(arguments[2], nullptr, 10)) : 0;
  const char* const own = std::getenv("PMIX_RANK");
  if (how == "absent" && own != nullptr && std::to_string(who) == own) return 0;
  const auto result = take_part(how, who);
  if (result) return 0;
  std::fprintf(stderr, "%s\n", to_string(result.error()).c_str());
  return 1;
}
