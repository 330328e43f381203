// SPDX-License-Identifier: MIT OR Apache-2.0
//
// mpirun -n RANKS barrier_driver ROUNDS BLOCK PROCESSORS
//
// Our barriers and MPI_Barrier take turns in the same processes, BLOCK at a time, ROUNDS times.
// PROCESSORS is the number of processors that all ranks share; it decides what `automatic` means,
// and whether ranks spin. Rank 0 prints a JSON line for each algorithm; `ratio` is the median of
// the ratios within the rounds.
//
// MPI carries the endpoints, and is the reference. We use nothing else of it.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "network/group.hpp"
#include "verbatim/network/barrier.hpp"
#include "verbatim/verbs/device.hpp"
#include "verbatim/verbs/endpoint.hpp"

namespace verbatim::barrier_bench {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "barrier_driver: %s\n", why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

template <class T>
T need(Result<T> result) {
  if (!result) give_up(to_string(result.error()));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// What each rank sends to the others.
struct Card {
  std::uint32_t size = 0;
  std::array<std::byte, 256> endpoint{};
  RemoteMemoryRegion slots{};
};

/// Channels to all ranks, and the group of the barriers.
class Mesh {
 public:
  Mesh(Rank rank, Rank world, std::uint16_t processors)
      : domain_(need(need(open_device("soft0")).allocate_domain())),
        reactor_(need(Reactor::create(domain_))),
        group_(need(detail::Group::create(domain_, reactor_, rank, world))),
        channels_(world) {
    for (Rank each = 0; each < world; ++each)
      group_->members.push_back({.rank = each, .processors = processors, .present = true});
    group_->oversubscribed = is_oversubscribed(group_->members);
    connect();
  }
  [[nodiscard]] detail::Group& group() { return *group_; }

 private:
  void connect() {
    std::vector<std::optional<PreparedChannel>> prepared(group_->world);
    std::vector<Card> ours(group_->world);
    std::vector<Card> theirs(group_->world);
    for (Rank to = 0; to < group_->world; ++to) {
      if (to == group_->rank) continue;
      prepared[to].emplace(need(
          PreparedChannel::create(domain_, {.on = reactor_, .max_sends = 16, .max_receives = 16})));
      const auto bytes = encode(prepared[to]->endpoint());
      if (bytes.size() > ours[to].endpoint.size()) give_up("endpoint too long");
      ours[to].size = static_cast<std::uint32_t>(bytes.size());
      std::ranges::copy(bytes, ours[to].endpoint.begin());
      ours[to].slots = group_->slots.remote();
    }
    MPI_Alltoall(ours.data(), sizeof(Card), MPI_BYTE, theirs.data(), sizeof(Card), MPI_BYTE,
                 MPI_COMM_WORLD);
    for (Rank to = 0; to < group_->world; ++to) {
      if (to == group_->rank) continue;
      const auto peer =
          need(decode_endpoint(std::span{theirs[to].endpoint}.first(theirs[to].size)));
      channels_[to].emplace(need(std::move(*prepared[to]).connect(peer)));
      group_->peers[to].channel = &*channels_[to];
      group_->peers[to].slots = theirs[to].slots;
    }
    MPI_Barrier(MPI_COMM_WORLD);  // From here on all ranks can receive.
  }

  ProtectionDomain domain_;
  Reactor reactor_;
  std::unique_ptr<detail::Group> group_;
  std::vector<std::optional<Channel>> channels_;
};

struct Case {
  std::string name;
  std::optional<Barrier> barrier{};  ///< None: MPI's.
  std::vector<double> us{};
  std::vector<double> ratio{};

  void meet() {
    if (!barrier) {
      MPI_Barrier(MPI_COMM_WORLD);
      return;
    }
    if (const auto met = (*barrier)(); !met) give_up(name + ": " + to_string(met.error()));
  }
  [[nodiscard]] double block(int count) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) meet();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / count;
  }
};

std::vector<Case> make_cases(detail::Group& group) {
  std::vector<Rank> all;
  for (Rank rank = 0; rank < group.world; ++rank) all.push_back(rank);
  std::vector<Case> cases;
  cases.push_back({.name = "mpi"});
  for (const auto algorithm : {BarrierAlgorithm::automatic, BarrierAlgorithm::centralized,
                               BarrierAlgorithm::binary_tree, BarrierAlgorithm::dissemination}) {
    std::string name{to_string(algorithm)};
    std::ranges::replace(name, ' ', '_');
    cases.push_back(
        {.name = std::move(name), .barrier = need(Barrier::create(group, all, algorithm))});
  }
  return cases;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int run(int rank, int size, int rounds, int count, std::uint16_t processors) {
  Mesh mesh{static_cast<Rank>(rank), static_cast<Rank>(size), processors};
  auto cases = make_cases(mesh.group());
  for (int round = -1; round < rounds; ++round) {  // The first one warms up.
    std::vector<double> us(cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const std::size_t turn = (i + static_cast<std::size_t>(round + 1)) % cases.size();
      us[turn] = cases[turn].block(count);
    }
    for (std::size_t i = 0; round >= 0 && i < cases.size(); ++i) {
      cases[i].us.push_back(us[i]);
      cases[i].ratio.push_back(us[i] / us[0]);
    }
  }
  for (const Case& each : cases)
    if (rank == 0)
      std::printf("{\"case\":\"%s\",\"us\":%.3f,\"ratio\":%.3f}\n", each.name.c_str(),
                  median(each.us), median(each.ratio));
  MPI_Barrier(MPI_COMM_WORLD);  // No rank leaves while others are in a barrier.
  return 0;
}

int number(const char* text) {
  int value = 0;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace
}  // namespace verbatim::barrier_bench

int main(int argc, char** argv) {
  using namespace verbatim::barrier_bench;
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int status = 2;
  if (argc == 4 && number(argv[1]) > 0 && number(argv[2]) > 0)
    status = run(rank, size, number(argv[1]), number(argv[2]),
                 static_cast<std::uint16_t>(number(argv[3])));
  else
    std::fputs("usage: mpirun -n RANKS barrier_driver ROUNDS BLOCK PROCESSORS\n", stderr);
  MPI_Finalize();
  return status;
}
