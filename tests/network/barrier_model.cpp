// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/barrier_model.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>

namespace verbatim::test {
namespace {

constexpr std::size_t kMostRanks = 4;
constexpr std::uint8_t kStopped = 0xff;  ///< In place of a position: it has met another group.

/// A step of the whole program of a rank.
struct Action {
  enum class Kind : std::uint8_t { enter, notify, await, leave };
  Kind kind;
  std::size_t barrier;
  Rank peer = 0;
  std::uint64_t flag = 0;  ///< To be written, or awaited.
};

/// Everything that changes. A notice is on its way if it was sent and has not been delivered.
struct State {
  std::array<std::uint8_t, kMostRanks> at{};                      ///< Next action of each rank.
  std::array<std::uint8_t, kMostRanks * kMostRanks> delivered{};  ///< Notices, from * 4 + to.

  friend bool operator==(const State&, const State&) = default;
};
static_assert(sizeof(State) == 20);

struct Hash {
  std::size_t operator()(const State& state) const noexcept {
    std::uint64_t words[3] = {};
    std::memcpy(words, &state, sizeof state);
    std::uint64_t hash = 0;
    for (const std::uint64_t word : words) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

class Explorer {
 public:
  Explorer(const std::vector<ModelBarrier>& barriers,
           const std::vector<std::vector<std::size_t>>& programs, const ModelRules& rules)
      : barriers_(barriers), rules_(rules), world_(static_cast<Rank>(programs.size())) {
    for (Rank rank = 0; rank < world_; ++rank) compile(rank, programs[rank]);
  }

  ModelOutcome run() {
    visit(State{});
    while (!todo_.empty() && outcome_.violation.empty()) {
      const State state = todo_.back();
      todo_.pop_back();
      expand(state);
    }
    outcome_.states = seen_.size();
    return outcome_;
  }

 private:
  void compile(Rank rank, const std::vector<std::size_t>& program) {
    std::array<std::uint64_t, kMostRanks> sent;
    std::array<std::uint64_t, kMostRanks> awaited;
    sent.fill(rules_.first_count);
    awaited.fill(rules_.first_count);
    auto& actions = actions_[rank];
    for (const std::size_t number : program) {
      const ModelBarrier& barrier = barriers_[number];
      const auto found = std::ranges::find(barrier.ranks, rank);
      if (found == barrier.ranks.end()) continue;
      const std::uint16_t tag = detail::make_tag(barrier.ranks, barrier.algorithm);
      actions.push_back({.kind = Action::Kind::enter, .barrier = number});
      for (const Step& step :
           rules_.schedule(barrier.algorithm, static_cast<std::uint32_t>(barrier.ranks.size()),
                           static_cast<std::uint32_t>(found - barrier.ranks.begin()))) {
        const Rank peer = barrier.ranks[step.index];
        const std::uint64_t count = step.notify ? ++sent[peer] : ++awaited[peer];
        const std::uint64_t flag = rules_.make_flag(1, tag, count);
        actions.push_back({.kind = step.notify ? Action::Kind::notify : Action::Kind::await,
                           .barrier = number,
                           .peer = peer,
                           .flag = flag});
        if (step.notify) flags_[rank][peer].push_back(flag);
      }
      actions.push_back({.kind = Action::Kind::leave, .barrier = number});
    }
  }

  void visit(const State& state) {
    if (seen_.insert(state).second) todo_.push_back(state);
  }

  [[nodiscard]] bool has_entered(const State& state, Rank rank, std::size_t barrier) const {
    if (state.at[rank] == kStopped) return true;  // It had, because it found that.
    const auto& actions = actions_[rank];
    for (std::size_t i = 0; i < state.at[rank]; ++i)
      if (actions[i].kind == Action::Kind::enter && actions[i].barrier == barrier) return true;
    return false;
  }

  [[nodiscard]] std::size_t sent(const State& state, Rank from, Rank to) const {
    // A rank that stopped has sent everything before that. How much is still to arrive does not
    // matter.
    if (state.at[from] == kStopped) return state.delivered[from * kMostRanks + to];
    const auto& actions = actions_[from];
    return static_cast<std::size_t>(std::count_if(
        actions.begin(), actions.begin() + state.at[from],
        [&](const Action& each) { return each.kind == Action::Kind::notify && each.peer == to; }));
  }

  void violated(const char* what, Rank rank, std::size_t barrier) {
    outcome_.violation = std::string{what} + ": rank " + std::to_string(rank) + ", barrier " +
                         std::to_string(barrier);
  }

  void expand(const State& state) {
    bool moved = false;
    const auto go = [&](const State& next) {
      moved = true;
      visit(next);
    };
    for (Rank rank = 0; rank < world_; ++rank) {
      if (state.at[rank] == kStopped || state.at[rank] == actions_[rank].size()) continue;
      State next = state;
      ++next.at[rank];
      const Action& action = actions_[rank][state.at[rank]];
      if (action.kind == Action::Kind::leave)
        for (const Rank member : barriers_[action.barrier].ranks)
          if (!has_entered(state, member, action.barrier))
            return violated("left early", rank, action.barrier);
      if (action.kind == Action::Kind::await) {
        const std::size_t count = state.delivered[action.peer * kMostRanks + rank];
        const std::uint64_t slot = count == 0 ? 0 : flags_[action.peer][rank][count - 1];
        const detail::Seen seen = rules_.compare(slot, action.flag);
        if (seen == detail::Seen::not_yet) continue;
        if (seen == detail::Seen::mismatch) {
          if (!rules_.may_mismatch) return violated("false mismatch", rank, action.barrier);
          ++outcome_.mismatches;
          next.at[rank] = kStopped;
        }
      }
      go(next);
    }
    for (Rank from = 0; from < world_; ++from)
      for (Rank to = 0; to < world_; ++to) {
        const std::size_t pair = from * kMostRanks + to;
        if (state.delivered[pair] >= sent(state, from, to)) continue;
        State next = state;
        ++next.delivered[pair];
        go(next);
      }
    if (moved) return;
    for (Rank rank = 0; rank < world_; ++rank) {
      // A rank that waits for one that has stopped waits for ever, until a time-out.
      if (std::ranges::find(state.at, kStopped) != state.at.end()) return;
      if (state.at[rank] < actions_[rank].size())
        return violated("deadlock", rank, actions_[rank][state.at[rank]].barrier);
    }
  }

  const std::vector<ModelBarrier>& barriers_;
  const ModelRules& rules_;
  const Rank world_;
  std::array<std::vector<Action>, kMostRanks> actions_;
  /// The flags that each rank sends to each other rank, in order.
  std::array<std::array<std::vector<std::uint64_t>, kMostRanks>, kMostRanks> flags_;
  std::unordered_set<State, Hash> seen_;
  std::vector<State> todo_;
  ModelOutcome outcome_;
};

}  // namespace

ModelOutcome explore(const std::vector<ModelBarrier>& barriers,
                     const std::vector<std::vector<std::size_t>>& programs,
                     const ModelRules& rules) {
  return Explorer{barriers, programs, rules}.run();
}

ModelOutcome explore(Rank world, const std::vector<ModelBarrier>& program,
                     const ModelRules& rules) {
  std::vector<std::size_t> all(program.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return explore(program, std::vector{world, all}, rules);
}

}  // namespace verbatim::test
