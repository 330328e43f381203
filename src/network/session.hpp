// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A rank's session: the thread that talks to the coordinator, and the calls that wait for
/// it.
///
/// The mutex guards what both sides touch. The session's thread never waits for a caller.
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "channel/private_descriptor.hpp"
#include "network/connection.hpp"
#include "network/messages.hpp"
#include "network/process_bound.hpp"
#include "network/session_dial.hpp"
#include "verbatim/network/exchanger.hpp"

namespace verbatim::detail {

class Session final : Connection::Owner {
 public:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  /// May throw what Asio throws.
  Session(const Identity& identity, const JoinOptions& options, Welcomed welcomed);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// May throw what std::thread throws.
  void start();

  [[nodiscard]] Result<void> wait_for_everybody(Clock::time_point deadline);
  [[nodiscard]] Result<std::vector<Bytes>> exchange(std::span<const std::byte> bytes,
                                                    Timeout limit);
  [[nodiscard]] Result<void> meet(Timeout limit);
  [[nodiscard]] Result<std::vector<PeerOffer>> offer(std::span<const std::byte> common,
                                                     std::span<const PeerRecord> to, Timeout limit);
  [[nodiscard]] Result<Departure> verdict(Timeout limit);
  [[nodiscard]] Result<void> report(std::span<const std::byte> state);
  [[nodiscard]] Result<Bytes> ask(Rank rank, Timeout limit);
  [[nodiscard]] Result<void> regroup(Timeout limit, Bytes record);
  [[nodiscard]] Result<void> leave(Timeout limit);
  [[nodiscard]] std::vector<Departure> departures();
  void on_departure(std::function<void(const Departure&)> call);

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] Rank world() const noexcept { return world_; }
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }
  [[nodiscard]] std::span<const Member> members() const noexcept { return members_; }
  [[nodiscard]] const std::atomic<std::uint32_t>& changes() const noexcept { return changes_; }
  [[nodiscard]] int fd() const noexcept { return news_.get(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return connection_->bytes(); }
  [[nodiscard]] bool is_forked() const noexcept { return process_.is_forked(); }

 private:
  /// A collective call, from the first attempt until its result was returned.
  struct Collective {
    std::optional<Call> call{};
    std::uint32_t sequence = 1;
    std::optional<GatheredMessage> gathered{};
    std::optional<FailedMessage> failed{};
  };
  struct OpenOffer {
    bool open = false;
    std::uint32_t sequence = 1;
    std::vector<Rank> peers{};
    std::optional<OffersMessage> offers{};
    std::optional<FailedMessage> failed{};
  };

  // In the session's thread.
  void received(Connection& connection, std::span<const std::byte> plaintext) override;
  void ended(Connection& connection, const Error& why) override;
  [[nodiscard]] Result<void> take(MessageKind kind, std::span<const std::byte> body);
  [[nodiscard]] Result<void> take_members(MembersMessage message);
  [[nodiscard]] Result<void> take_offers(OffersMessage message);
  [[nodiscard]] Result<void> take_gathered(GatheredMessage message);
  void take_failed(const FailedMessage& message);
  void take_departure(Departure departure);
  void answer(const AskMessage& question);
  void note(const Departure& departure, const std::optional<Error>& why);
  void end(const Error& why);
  void await_tick();
  void tick();
  void stop();

  // In the caller's thread.
  void send(Bytes plaintext);
  template <class Condition>
  [[nodiscard]] bool await(Lock& lock, Clock::time_point deadline, Condition condition);
  [[nodiscard]] Result<void> usable(const char* operation) const;
  [[nodiscard]] Error over(const char* operation) const noexcept;
  [[nodiscard]] Error late(Lock& lock, Call call, const char* operation);
  [[nodiscard]] Result<GatheredMessage> collective(Call call, std::span<const std::byte> bytes,
                                                   Timeout limit, const char* operation);
  void adopt_members();
  [[nodiscard]] std::optional<Departure> first_departure(bool losses_only) const;

  ProcessBound process_;
  Rank rank_;
  Rank world_;
  Clock::duration detect_;
  Clock::duration interval_;
  asio::io_context loop_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.get_executor()};
  asio::steady_timer ticks_{loop_};
  std::shared_ptr<Connection> connection_;
  PrivateDescriptor news_;  ///< An eventfd: departures that were not looked at.
  std::thread thread_{};

  // Only for the caller.
  std::vector<Member> members_{};
  std::uint32_t generation_ = 0;
  bool regrouping_ = false;

  // Only for the session's thread.
  std::function<void(const Departure&)> listener_{};
  Clock::time_point last_tick_ = Clock::now();
  bool stopped_ = false;

  std::atomic<std::uint32_t> changes_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> over_{};  ///< Why nothing works any more.
  std::optional<MembersMessage> next_members_{};
  std::optional<FailedMessage> join_failed_{};
  std::vector<Departure> departures_{};
  Collective collective_{};
  OpenOffer offer_{};
  Bytes report_{};
  std::uint32_t token_ = 0;
  std::optional<StateMessage> state_{};
  std::optional<MissingMessage> missing_{};
  bool said_bye_ = false;
  bool farewell_ = false;
};

}  // namespace verbatim::detail
