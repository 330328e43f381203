// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/coordinator_loop.hpp"

#include <poll.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cerrno>
#include <utility>

#include "base/library_thread.hpp"
#include "channel/tcp.hpp"
#include "verbatim/base/log.hpp"

namespace verbatim::detail {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kAcceptsAtOnce = 64;
/// Ranks that leave together leave within this time, and news of that is not urgent.
constexpr auto kSoon = 1ms;
/// How long to stay for ranks that start after another rank was already lost.
constexpr auto kLinger = 2s;

/// Often enough to keep both time limits, and no more often than necessary.
Clock::duration tick_interval(const CoordinatorOptions& options) noexcept {
  const std::chrono::nanoseconds least = std::min(options.detect, options.handshake_timeout) / 4;
  return std::chrono::duration_cast<Clock::duration>(
      std::clamp<std::chrono::nanoseconds>(least, 5ms, 1s));
}

std::uint32_t to_milliseconds(std::chrono::nanoseconds time) noexcept {
  return static_cast<std::uint32_t>(std::clamp<std::chrono::nanoseconds>(time, 1ms, 24h) /
                                    std::chrono::milliseconds{1});
}

void report(LogLevel level, const std::string& who, std::string_view what) {
  if (log_enabled()) log(level, "coordinator: " + who + ": " + std::string{what});
}

}  // namespace

CoordinatorLoop::CoordinatorLoop(const CoordinatorOptions& options, PrivateDescriptor listener,
                                 std::string address, std::uint16_t port)
    : options_(options),
      address_(std::move(address)),
      port_(port),
      job_(job_id(options.job)),
      listener_(std::move(listener)),
      watched_(loop_, listener_.get()),
      interval_(tick_interval(options)),
      membership_(options.world, to_milliseconds(options.detect), *this) {
  if (options.secret) std::ranges::copy(options.secret->bytes(), key_.begin());
}

void CoordinatorLoop::start() {
  await_clients();
  await_tick();
  thread_ = start_library_thread([this] { loop_.run(); });
}

CoordinatorLoop::~CoordinatorLoop() {
  if (thread_.joinable()) {
    asio::post(loop_, [this] { stop(); });
    thread_.join();
  }
  if (listener_) watched_.release();
  sodium_memzero(key_.data(), key_.size());
}

/// Tells the membership, in the loop, that the process of a rank has ended.
void CoordinatorLoop::rank_ended(Rank rank) {
  asio::post(loop_, [this, rank] { membership_.never_comes(rank); });
}

void CoordinatorLoop::stop() {
  // A rank that comes late would find nobody, and not learn the reason.
  if (membership_.owes_the_loss()) {
    stop_by_ = Clock::now() + kLinger;
    return;
  }
  refuse_clients();
  const bool has_last_words = membership_.give_up_forming() || membership_.is_over();
  stop_by_ = Clock::now() + (has_last_words ? 1s : 0s);
  end_if_stopped();
}

void CoordinatorLoop::refuse_clients() {
  if (!listener_) return;
  watched_.release();
  listener_.reset();
  for (const ClientId stranger : std::exchange(strangers_, {})) forget(stranger);
}

/// Ends the connections and the timers. When no handler is left, the loop's run() returns.
void CoordinatorLoop::end_if_stopped() {
  const bool waits =
      std::ranges::any_of(clients_, [](const auto& each) { return each.second.closing; });
  if ((waits || membership_.owes_the_loss()) && Clock::now() < stop_by_) return;
  if (std::exchange(ended_, true)) return;
  refuse_clients();
  for (auto& [id, client] : clients_) client.connection->close();
  clients_.clear();
  ticks_.cancel();
  soon_.cancel();
}

// ---- Clients come -------------------------------------------------------------------------------

void CoordinatorLoop::await_clients() {
  watched_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const asio::error_code& failed) {
                        if (failed || !listener_) return;
                        accept_clients();
                      });
}

void CoordinatorLoop::accept_clients() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    auto socket = try_accept(listener_.get(), "coordinator");
    if (!socket) {
      if (make_room()) continue;
      // The system has no descriptor left. The next tick tries again.
      report(LogLevel::warning, address_, to_string(socket.error()));
      paused_ = true;
      return;
    }
    if (!*socket) break;
    while (strangers_.size() >= std::max(options_.max_pending, 1u)) static_cast<void>(make_room());
    admit(*std::move(*socket));
  }
  await_clients();
}

/// Drops the stranger that has had the most time.
bool CoordinatorLoop::make_room() {
  if (strangers_.empty()) return false;
  const ClientId oldest = *strangers_.begin();
  report(LogLevel::warning, clients_.at(oldest).address,
         "dropped: too many clients that prove nothing");
  forget(oldest);
  return true;
}

void CoordinatorLoop::admit(PrivateDescriptor socket) {
  const ClientId id = next_id_++;
  const auto address = peer_address(socket.get(), "coordinator");
  auto connection = std::make_shared<Connection>(loop_, std::move(socket),
                                                 SecureStream{SessionEnd::coordinator, key_, job_},
                                                 static_cast<Connection::Owner&>(*this), id);
  clients_.emplace(id, Client{.connection = connection,
                              .address = address ? to_string(*address) : "a client",
                              .since = Clock::now()});
  strangers_.insert(id);
  connection->start();
}

void CoordinatorLoop::forget(ClientId client) {
  strangers_.erase(client);
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second.connection->close();
  clients_.erase(found);
  if (stop_by_ != Clock::time_point::max()) end_if_stopped();
}

// ---- What they say ------------------------------------------------------------------------------

/// The client is authentic. Whether it may join is checked later.
void CoordinatorLoop::first_frame(Connection& connection, std::span<const std::byte> plaintext) {
  connection.stream().trust();
  strangers_.erase(connection.id());
  // A process that replaces a dead one may arrive before the news of the death.
  const auto kind = kind_of(plaintext);
  const auto join = kind && *kind == MessageKind::join ? decode<JoinMessage>(plaintext.subspan(1))
                                                       : std::unexpected(Error{});
  const auto holder = join ? membership_.holder(join->rank) : std::nullopt;
  if (!holder) return;
  const std::shared_ptr<Connection> other = clients_.at(*holder).connection;
  other->look();  // It may have said goodbye.
  pollfd entry{.fd = other->socket(), .events = POLLRDHUP, .revents = 0};
  if (!other->is_open() || poll(&entry, 1, 0) <= 0) return;
  if (const auto client = clients_.find(*holder); client != clients_.end())
    drop(client, Departed::connection_ended);
}

void CoordinatorLoop::received(Connection& connection, std::span<const std::byte> plaintext) {
  if (!connection.stream().trusted()) first_frame(connection, plaintext);
  const auto handled = membership_.handle(connection.id(), plaintext);
  if (handled) return;
  const auto client = clients_.find(connection.id());
  report(LogLevel::warning, client->second.address, "dropped: " + to_string(handled.error()));
  drop(client, Departed::connection_ended);
}

void CoordinatorLoop::ended(Connection& connection, const Error& why) {
  const auto client = clients_.find(connection.id());
  if (client == clients_.end()) return;
  const bool stranger = strangers_.contains(connection.id());
  if (stranger)
    report(LogLevel::warning, client->second.address, "dropped: " + to_string(why));
  else if (!client->second.closing && why.code != Errc::closed)
    report(LogLevel::warning, client->second.address, "lost: " + to_string(why));
  drop(client, why.code == Errc::limit_exceeded ? Departed::silent : Departed::connection_ended);
}

/// Whatever the reason, the other ranks have lost this one.
void CoordinatorLoop::drop(Clients::iterator client, Departed why) {
  const ClientId id = client->first;
  forget(id);
  membership_.ended(id, why);
}

void CoordinatorLoop::send(ClientId client, Bytes plaintext) {
  const auto found = clients_.find(client);
  if (found != clients_.end()) found->second.connection->send(plaintext);
}

void CoordinatorLoop::close(ClientId client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second.closing = true;
  found->second.since = Clock::now();
  found->second.connection->finish();
}

void CoordinatorLoop::call_soon() {
  soon_.expires_after(kSoon);
  soon_.async_wait([this](const asio::error_code& failed) {
    if (!failed) membership_.tell_departures();
  });
}

// ---- Time ---------------------------------------------------------------------------------------

void CoordinatorLoop::await_tick() {
  ticks_.expires_after(interval_);
  ticks_.async_wait([this](const asio::error_code& failed) {
    if (failed || ended_) return;
    tick();
    if (!ended_) await_tick();
  });
}

void CoordinatorLoop::tick() {
  const auto now = Clock::now();
  // If this process was stopped, the clients were not silent in that time.
  const auto late = now - std::exchange(last_tick_, now) - interval_;
  if (late > interval_)
    for (auto& [id, client] : clients_) {
      client.connection->excuse(late);
      client.since += late;
    }
  std::vector<ClientId> overdue;
  std::vector<ClientId> silent;
  for (const auto& [id, client] : clients_) {
    const bool stranger = strangers_.contains(id);
    if ((stranger || client.closing) && now - client.since > options_.handshake_timeout)
      overdue.push_back(id);
    else if (!stranger && !client.closing &&
             now - client.connection->last_heard() > options_.detect)
      silent.push_back(id);
  }
  for (const ClientId id : overdue) {
    const auto client = clients_.find(id);
    if (client != clients_.end() && strangers_.contains(id))
      report(LogLevel::warning, client->second.address, "dropped: it proved nothing in time");
    forget(id);
  }
  for (const ClientId id : silent) {
    const auto client = clients_.find(id);
    if (client == clients_.end()) continue;
    const std::shared_ptr<Connection> connection = client->second.connection;
    connection->look();  // Counts messages that came while we were busy.
    const auto again = clients_.find(id);
    if (again == clients_.end() || now - connection->last_heard() <= options_.detect) continue;
    report(LogLevel::warning, again->second.address, "lost: silent");
    // If the rank ever wakes up, it finds this message.
    connection->send(encode(DepartedMessage{{{kNoRank, Departed::dropped}}}));
    drop(again, Departed::silent);
  }
  if (stop_by_ != Clock::time_point::max()) return end_if_stopped();
  if (listener_ && std::exchange(paused_, false)) accept_clients();
}

}  // namespace verbatim::detail
