// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the coordinator knows and decides, without sockets, threads or time: who holds which
/// rank, what they are gathering, who is gone. Every decision is made here, in one order.
///
/// A client is a number that the caller chose. It is authentic (it knows the secret), but what it
/// sends may be wrong: then handle() fails, and the caller ends the client.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "network/messages.hpp"
#include "network/offers.hpp"
#include "network/round.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/network/exchanger.hpp"

namespace verbatim::detail {

using ClientId = std::uint64_t;

/// What Membership wants done. Neither call may re-enter it before it has returned.
class MembershipOutput {
 public:
  virtual void send(ClientId client, Bytes plaintext) = 0;
  /// Close the connection when everything was sent. Do not report it as ended.
  virtual void close(ClientId client) = 0;
  /// Call tell_departures() in a moment.
  virtual void call_soon() = 0;

 protected:
  ~MembershipOutput() = default;
};

class Membership {
 public:
  Membership(Rank world, std::uint32_t detect_ms, MembershipOutput& output);

  /// Handles a frame of a client. An error: the client broke the protocol, and must be ended().
  [[nodiscard]] Result<void> handle(ClientId client, std::span<const std::byte> plaintext);
  /// The client is gone, or counts as gone. Nothing is sent to it after this.
  void ended(ClientId client, Departed why);
  /// The process of a rank has ended, whether it had joined or not.
  void never_comes(Rank rank);
  /// Sends what is known of ranks that have left. A loss is sent at once. When many ranks leave at
  /// about the same time, the others get a few messages, not one for each.
  void tell_departures();
  /// The coordinator ends. Tells the clients that wait for the first generation which rank did not
  /// come; true if there were any.
  [[nodiscard]] bool give_up_forming();
  /// A rank was lost before all were there, and a rank that may still come does not know it.
  [[nodiscard]] bool owes_the_loss() const noexcept;
  /// The client that holds the rank now, if any.
  [[nodiscard]] std::optional<ClientId> holder(Rank rank) const noexcept;
  /// No rank takes part any more, and all that left were told so.
  [[nodiscard]] bool is_over() const noexcept;
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }

 private:
  struct Seat {
    std::optional<ClientId> client{};  ///< None: not there yet, lost, or left.
    Member member{};
    bool regroups = false;
  };
  struct Place {
    Rank rank = 0;
    enum class Kind : std::uint8_t { seat, lobby, leaver } kind = Kind::seat;
  };

  [[nodiscard]] Result<void> handle_join(ClientId client, const JoinMessage& join);
  [[nodiscard]] Result<void> handle_of(Rank rank, MessageKind kind,
                                       std::span<const std::byte> body);
  [[nodiscard]] Result<void> contribute(Rank rank, ContributionMessage&& message);
  [[nodiscard]] Result<void> offer(Rank rank, OfferMessage&& message);
  [[nodiscard]] Result<void> regroup(Rank rank, RegroupMessage&& message);
  [[nodiscard]] Result<void> ask(Rank rank, const AskMessage& message);
  [[nodiscard]] Result<void> state(Rank rank, StateMessage&& message);
  void who_is_missing(ClientId client, const Place& place, const WhoIsMissingMessage& message);
  void bye(ClientId client, Place& place);

  void refuse(ClientId client, const RefusedMessage& message);
  [[nodiscard]] bool refused(ClientId client, const JoinMessage& join);
  void take_seat(ClientId client, const JoinMessage& join);
  void end_forming(Rank lost, Departed why);
  void depart(Departure departure);
  void commit_if_all();
  void commit();
  void farewell_if_over();
  void tell(Rank rank, Bytes plaintext);
  void tell_all(const Bytes& plaintext);
  void send_round_results();
  void send_offers();
  [[nodiscard]] std::vector<Rank> live() const;
  [[nodiscard]] std::vector<Rank> missing(const Place& place, Call call) const;

  Rank world_;
  std::uint32_t detect_ms_;
  MembershipOutput& output_;
  std::uint32_t generation_ = 0;  ///< 0: not all ranks have been there yet.
  std::optional<std::uint8_t> algorithm_{};
  std::vector<Seat> seats_;                       ///< By rank.
  std::unordered_map<ClientId, Place> places_{};  ///< Of all clients that have joined.
  std::map<Rank, std::pair<ClientId, JoinMessage>> lobby_{};
  /// Lost before all ranks were there, and not replaced. In this order: the first one is the
  /// reason.
  std::vector<Departure> lost_early_{};
  std::set<Rank> heard_early_{};     ///< The ranks that were told of it.
  std::set<Rank> gave_up_{};         ///< The ranks that stopped waiting for the others.
  std::vector<Departure> untold_{};  ///< Ranks that have left; not told yet.
  Round round_;
  OfferBook offers_;
};

}  // namespace verbatim::detail
