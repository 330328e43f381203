// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the coordinator knows and decides, without sockets, threads or time: who sits on
/// which rank, what they are gathering, who is gone. Every verdict is made here, in one order.
///
/// A client is a number that the caller chose. It is authentic (it knows the secret), yet what it
/// says may be wrong: then handle() fails, and the caller ends it.
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

/// What Membership wants done. Neither call may come back into it before it has returned.
class MembershipOutput {
 public:
  virtual void send(ClientId client, Bytes plaintext) = 0;
  /// Its end of the connection is to be closed when all was sent. It is not reported as ended.
  virtual void close(ClientId client) = 0;
  /// tell_departures() is to be called in a moment.
  virtual void call_soon() = 0;

 protected:
  ~MembershipOutput() = default;
};

class Membership {
 public:
  Membership(Rank world, std::uint32_t detect_ms, MembershipOutput& output);

  /// A frame of a client. An error: the client broke the protocol, and has to be ended().
  [[nodiscard]] Result<void> handle(ClientId client, std::span<const std::byte> plaintext);
  /// The client is gone, or counts as gone. Nothing is said to it after this.
  void ended(ClientId client, Departed why);
  /// The process of a rank has ended, whether it had come or not.
  void never_comes(Rank rank);
  /// Of those who have left. A loss is told at once; of many who leave at about the same time
  /// everybody hears in a few messages, not in one for each of them.
  void tell_departures();
  /// The coordinator ends. Those who wait until all are there hear for whom it waited in vain; true
  /// if there was somebody to tell.
  [[nodiscard]] bool give_up_forming();
  /// Somebody was lost before all were there, and not everybody who may still come knows it.
  [[nodiscard]] bool owes_the_loss() const noexcept;
  /// Who sits on that rank now, if somebody does.
  [[nodiscard]] std::optional<ClientId> holder(Rank rank) const noexcept;
  /// Nobody takes part any more, and all who left were told so.
  [[nodiscard]] bool is_over() const noexcept;
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }

 private:
  struct Seat {
    std::optional<ClientId> client{};  ///< None: not there yet, gone, or left.
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
  std::uint32_t generation_ = 0;  ///< 0: not everybody has been there yet.
  std::optional<std::uint8_t> algorithm_{};
  std::vector<Seat> seats_;                       ///< By rank.
  std::unordered_map<ClientId, Place> places_{};  ///< Of everybody who has joined.
  std::map<Rank, std::pair<ClientId, JoinMessage>> lobby_{};
  /// Before everybody was there, and not come back. In this order: the first one is the reason.
  std::vector<Departure> lost_early_{};
  std::set<Rank> heard_early_{};  ///< Who was told of that.
  std::set<Rank> gave_up_{};      ///< Who was there, and did not wait for the others any longer.
  std::vector<Departure> untold_{};  ///< Those who have left, and nobody was told.
  Round round_;
  OfferBook offers_;
};

}  // namespace verbatim::detail
