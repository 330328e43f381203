// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/session.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/library_thread.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"

// The session's thread. The calls of an Exchanger are in session_calls.cpp.

namespace verbatim::detail {
namespace {

using namespace std::chrono_literals;

constexpr Error kCoordinatorLost{
    .code = Errc::peer_lost, .operation = "session", .field = "coordinator"};

Error malformed(const char* message, const char* field, std::uint64_t value,
                std::uint64_t limit) noexcept {
  return {.code = Errc::malformed,
          .operation = message,
          .field = field,
          .value = value,
          .limit = limit};
}

/// Fits several pings into the time after which a silent peer counts as gone.
Session::Clock::duration ping_interval(std::chrono::nanoseconds ours, std::uint32_t theirs_ms) {
  const std::chrono::nanoseconds least =
      std::min<std::chrono::nanoseconds>(ours, std::chrono::milliseconds{theirs_ms}) / 4;
  return std::chrono::duration_cast<Session::Clock::duration>(
      std::clamp<std::chrono::nanoseconds>(least, 2ms, 1s));
}

}  // namespace

Session::Session(const Identity& identity, const JoinOptions& options, Welcomed welcomed)
    : rank_(identity.rank),
      world_(identity.world),
      detect_(std::chrono::duration_cast<Clock::duration>(options.detect)),
      interval_(ping_interval(options.detect, welcomed.welcome.detect_ms)),
      connection_(std::make_shared<Connection>(loop_, std::move(welcomed.socket),
                                               std::move(welcomed.stream),
                                               static_cast<Connection::Owner&>(*this))),
      news_(PrivateDescriptor::opened_by([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); })) {
  if (!news_) throw std::system_error{errno, std::system_category(), "eventfd"};
}

void Session::start() {
  connection_->start();
  await_tick();
  thread_ = start_library_thread([this] { loop_.run(); });
}

Session::~Session() {
  if (!thread_.joinable()) return;
  asio::post(loop_, [this] { stop(); });
  thread_.join();
}

/// When no handler is left, the loop's run() returns.
void Session::stop() {
  stopped_ = true;
  ticks_.cancel();
  connection_->close();
  work_.reset();
}

void Session::await_tick() {
  ticks_.expires_after(interval_);
  ticks_.async_wait([this](const asio::error_code& failed) {
    if (failed || stopped_ || !connection_->is_open()) return;
    tick();
    await_tick();
  });
}

void Session::tick() {
  const auto now = Clock::now();
  // If this process was stopped, the coordinator was not silent in that time.
  const auto late = now - std::exchange(last_tick_, now) - interval_;
  if (late > interval_) connection_->excuse(late);
  connection_->look();  // First: it may say that we were dropped.
  if (!connection_->is_open()) return;
  if (now - connection_->last_heard() > detect_) {
    connection_->close();
    return end(kCoordinatorLost);
  }
  connection_->send(encode(PingMessage{}));
}

void Session::received(Connection& connection, std::span<const std::byte> plaintext) {
  const auto kind = kind_of(plaintext);
  const Result<void> taken =
      kind ? take(*kind, plaintext.subspan(1)) : std::unexpected(kind.error());
  if (taken) return;
  // The peer knows the secret but does not follow the protocol, so the session cannot go on.
  if (log_enabled()) log(LogLevel::error, "session: " + to_string(taken.error()));
  connection.close();
  end(taken.error());
}

void Session::ended(Connection&, const Error&) { end(kCoordinatorLost); }

/// The coordinator is gone, so no call works from now on.
void Session::end(const Error& why) { note({.why = Departed::coordinator}, why); }

Result<void> Session::take(MessageKind kind, std::span<const std::byte> body) {
  switch (kind) {
    case MessageKind::pong: return {};
    case MessageKind::members: return take_members(VERBATIM_TRY(decode<MembersMessage>(body)));
    case MessageKind::gathered: return take_gathered(VERBATIM_TRY(decode<GatheredMessage>(body)));
    case MessageKind::offers: return take_offers(VERBATIM_TRY(decode<OffersMessage>(body)));
    case MessageKind::failed: take_failed(VERBATIM_TRY(decode<FailedMessage>(body))); return {};
    case MessageKind::departed:
      for (const Departure& each : VERBATIM_TRY(decode<DepartedMessage>(body)).departures)
        take_departure(each);
      return {};
    case MessageKind::ask: answer(VERBATIM_TRY(decode<AskMessage>(body))); return {};
    case MessageKind::state: {
      auto state = VERBATIM_TRY(decode<StateMessage>(body));
      const std::lock_guard lock{mutex_};
      state_ = std::move(state);
      break;
    }
    case MessageKind::missing: {
      auto missing = VERBATIM_TRY(decode<MissingMessage>(body));
      const std::lock_guard lock{mutex_};
      missing_ = std::move(missing);
      break;
    }
    case MessageKind::farewell: {
      connection_->close();
      const std::lock_guard lock{mutex_};
      farewell_ = true;
      break;
    }
    default:
      return std::unexpected(malformed("session", "kind", static_cast<std::uint8_t>(kind), 0));
  }
  changed_.notify_all();
  return {};
}

Result<void> Session::take_members(MembersMessage message) {
  if (message.members.size() != world_)
    return std::unexpected(malformed("members", "world", message.members.size(), world_));
  if (!message.members[rank_].present)
    return std::unexpected(malformed("members", "rank", rank_, 0));
  std::uint64_t unread = 0;
  {
    const std::lock_guard lock{mutex_};
    next_members_ = std::move(message);
    // Forgets what belonged to the former generation.
    departures_.clear();
    collective_ = {};
    offer_ = {};
    static_cast<void>(read(news_.get(), &unread, sizeof unread));
  }
  changed_.notify_all();
  return {};
}

Result<void> Session::take_gathered(GatheredMessage message) {
  {
    const std::lock_guard lock{mutex_};
    const std::size_t expected = collective_.call == Call::exchange ? world_ : 0;
    if (!collective_.call || message.sequence != collective_.sequence ||
        message.by_rank.size() != expected)
      return std::unexpected(
          malformed("gathered", "sequence", message.sequence, collective_.sequence));
    collective_.gathered = std::move(message);
  }
  changed_.notify_all();
  return {};
}

Result<void> Session::take_offers(OffersMessage message) {
  {
    const std::lock_guard lock{mutex_};
    const bool fits = offer_.open && message.sequence == offer_.sequence &&
                      std::ranges::equal(message.from, offer_.peers, {}, &PeerOffer::rank);
    if (!fits)
      return std::unexpected(malformed("offers", "sequence", message.sequence, offer_.sequence));
    offer_.offers = std::move(message);
  }
  changed_.notify_all();
  return {};
}

void Session::take_failed(const FailedMessage& message) {
  {
    const std::lock_guard lock{mutex_};
    if (message.call == Call::join)
      join_failed_ = message;
    else if (message.call == Call::offer && offer_.open && message.sequence == offer_.sequence)
      offer_.failed = message;
    else if (collective_.call && message.sequence == collective_.sequence)
      collective_.failed = message;
  }
  changed_.notify_all();
}

void Session::take_departure(Departure departure) {
  if (departure.why != Departed::dropped) return note(departure, std::nullopt);
  note({.rank = rank_, .why = Departed::dropped},
       Error{.code = Errc::peer_lost, .operation = "session", .field = "rank", .value = rank_});
}

/// Records a departure. With `why`, the session is over, too. Only its first end counts.
void Session::note(const Departure& departure, const std::optional<Error>& why) {
  {
    const std::lock_guard lock{mutex_};
    if (over_) return;
    over_ = why;
    departures_.push_back(departure);
    changes_.fetch_add(1, std::memory_order_release);
    const std::uint64_t one = 1;
    static_cast<void>(write(news_.get(), &one, sizeof one));
  }
  changed_.notify_all();
  if (listener_) listener_(departure);
}

void Session::answer(const AskMessage& question) {
  StateMessage message{.rank = question.rank, .token = question.token};
  {
    const std::lock_guard lock{mutex_};
    message.bytes = report_;
  }
  connection_->send(encode(message));
}

}  // namespace verbatim::detail
