// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Ranks of one process, each with a reactor and channels to all others, and a session that
/// says what a test wants.
///
/// The test creates the world; after that each rank belongs to one thread.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "network/group.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"
#include "verbatim/network/barrier.hpp"
#include "verbatim/verbs/context.hpp"

namespace verbatim::test {

/// The longest wait of these tests; long enough for a busy machine.
inline constexpr std::chrono::seconds kLong{60};

class FakeSession;

/// The coordinator of all sessions of a world.
class FakeCoordinator {
 public:
  explicit FakeCoordinator(Rank world) : reports_(world) {}
  void depart(Departure departure);
  /// Begins a new generation, in which nobody has departed.
  void begin();

 private:
  friend class FakeSession;
  std::mutex mutex_;
  std::condition_variable departed_;
  std::vector<Departure> departures_;
  std::vector<const FakeSession*> sessions_;
  std::vector<std::optional<std::vector<std::byte>>> reports_;  ///< Empty: it does not answer.
  std::atomic<std::uint32_t> changes_{0};
};

class FakeSession final : public detail::SessionView {
 public:
  FakeSession(FakeCoordinator& coordinator, Rank rank);
  /// Answers without a report. Otherwise it does not answer before the first report().
  void answer();
  [[nodiscard]] std::uint32_t changes() const noexcept override;
  [[nodiscard]] std::vector<Departure> departures() const override;
  [[nodiscard]] int fd() const override { return event_.get(); }
  [[nodiscard]] Result<Departure> verdict(Timeout limit) override;
  void report(std::span<const std::byte> state) override;
  [[nodiscard]] Result<std::vector<std::byte>> ask(Rank rank, Timeout limit) override;

  /// Called when the rank checks for departures, before it gets them.
  std::function<void()> on_look{};
  std::atomic<int> verdicts{0};  ///< How often it was asked.
  std::atomic<int> reports{0};
  std::atomic<int> questions{0};  ///< How often it has asked about another rank.

 private:
  friend class FakeCoordinator;
  FakeCoordinator& coordinator_;
  const Rank rank_;
  detail::FileDescriptor event_;  ///< Readable while there are unseen departures.
};

/// One rank, as a node would create it.
class WorldRank {
 public:
  WorldRank(Context context, Rank rank, Rank world);
  void prepare(const ChannelOptions& options);
  void connect(WorldRank& other);
  [[nodiscard]] Channel& channel(Rank to) { return *channels[to]; }
  [[nodiscard]] Barrier barrier(std::span<const Rank> ranks,
                                BarrierAlgorithm algorithm = BarrierAlgorithm::dissemination);

  /// Returns when everything that it has sent has arrived.
  void flush();

  const Rank rank;
  ProtectionDomain domain;
  Reactor reactor;
  std::vector<std::optional<PreparedChannel>> prepared;
  std::vector<std::optional<Channel>> channels;
  std::unique_ptr<detail::Group> group;
  std::unique_ptr<FakeSession> session;
};

struct WorldOptions {
  bool session = false;
  bool oversubscribed = true;  ///< There are fewer processors than threads.
  /// Long, because a rank that is between the end of its channels and its departure may be slow.
  std::chrono::nanoseconds detect = kLong;
  ChannelOptions channel{.max_sends = 16, .max_receives = 16};
};

class World {
 public:
  explicit World(Rank size, const WorldOptions& options = {});
  /// Runs each rank in a separate thread. Returns when all have returned.
  void run(const std::function<void(WorldRank&)>& body);
  [[nodiscard]] WorldRank& operator[](Rank rank) { return *ranks_[rank]; }
  [[nodiscard]] Rank size() const noexcept { return static_cast<Rank>(ranks_.size()); }

  FakeCoordinator coordinator;

 private:
  std::vector<std::unique_ptr<WorldRank>> ranks_;
};

/// 0 to size - 1.
[[nodiscard]] std::vector<Rank> everyone(Rank size);

}  // namespace verbatim::test
