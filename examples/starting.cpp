// SPDX-License-Identifier: MIT OR Apache-2.0
// How a program becomes the ranks of a job: under `verbatim run`, under mpirun or srun, from a
// file, or all of them in one process.
//
//   verbatim run -n 4 -- ./starting      mpirun -n 4 ./starting
//   ./starting hosts.json 2              rank 2 of the file
//   ./starting                           four ranks in threads
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "verbatim/base/try.hpp"
#include "verbatim/network/bootstrap.hpp"
#include "verbatim/network/exchanger.hpp"

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

// [meet]
vb::Result<void> take_part(const vb::Identity& identity) {
  auto exchanger = VERBATIM_TRY(vb::Exchanger::join(identity, {}));  // returns when all are there
  const auto squares = VERBATIM_TRY(exchanger.exchange(identity.rank * identity.rank));
  if (identity.rank == 0)
    for (vb::Rank rank = 0; rank < identity.world; ++rank)
      std::printf("rank %u says %u\n", rank, squares[rank]);
  return exchanger.leave(10s);
}
// [/meet]

// [file]
vb::Result<vb::Identity> of_file(const char* path, vb::Rank rank) {
  const auto network = VERBATIM_TRY(vb::load_network_config(path));
  return vb::Bootstrap::config(network, rank, {.job = "starting"});  // rank 0 coordinates
}
// [/file]

// [threads]
vb::Result<void> in_threads(vb::Rank world) {
  const auto identities = VERBATIM_TRY(vb::Bootstrap::in_process(world));
  std::vector<vb::Result<void>> results(world);
  std::vector<std::thread> ranks;
  for (const vb::Identity& identity : identities)
    ranks.emplace_back([&] { results[identity.rank] = take_part(identity); });
  for (std::thread& rank : ranks) rank.join();
  for (const auto& result : results) VERBATIM_TRY(result);
  return {};
}
// [/threads]

vb::Result<void> run(int count, char** arguments) {
  if (count == 3) {
    const auto rank = static_cast<vb::Rank>(std::strtoul(arguments[2], nullptr, 10));
    return take_part(VERBATIM_TRY(of_file(arguments[1], rank)));
  }
  // [find]
  const auto identity = vb::Bootstrap::find(30s);  // verbatim run, mpirun, srun
  if (identity == vb::Errc::not_found) return in_threads(4);
  if (!identity) return std::unexpected(identity.error());
  return take_part(*identity);
  // [/find]
}

}  // namespace

int main(int count, char** arguments) {
  const auto result = run(count, arguments);
  if (result) return 0;
  std::fprintf(stderr, "%s\n", to_string(result.error()).c_str());
  return 1;
}
