// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/session_dial.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/random.hpp"
#include "channel/socket_address.hpp"
#include "channel/tcp.hpp"
#include "network/host.hpp"
#include "network/loopback.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kSessionDialOperation = "Exchanger::join";
constexpr Clock::duration kLongestAttempt = 10s;
constexpr Clock::duration kLongestPause = 200ms;

/// Why an attempt failed, and whether another one may succeed.
struct Failure {
  Error error;
  enum class Hope : std::uint8_t { later, elsewhere, none } hope = Hope::later;
};
using Hope = Failure::Hope;

Error refusal(const RefusedMessage& message) noexcept {
  Error error{.operation = kSessionDialOperation, .value = message.value, .limit = message.limit};
  switch (message.field) {
    case RefusedField::rank_taken:
      error.code = Errc::busy;
      error.field = "rank";
      break;
    case RefusedField::rank_beyond:
      error.code = Errc::invalid_argument;
      error.field = "rank";
      break;
    case RefusedField::world:
      error.code = Errc::incompatible;
      error.field = "world";
      break;
    case RefusedField::algorithm:
      error.code = Errc::incompatible;
      error.field = "algorithm";
      break;
  }
  return error;
}

/// Whether the coordinator may still start, or the network may come back.
bool may_come(int os_error) noexcept {
  return os_error == ECONNREFUSED || os_error == ECONNRESET || os_error == ETIMEDOUT ||
         os_error == EHOSTUNREACH || os_error == EAGAIN || os_error == EINTR;
}

Failure connect_failure(int os_error) noexcept {
  Error error = os_failure(kSessionDialOperation, os_error);
  error.field = "coordinator";
  return {error, may_come(os_error) ? Hope::later : Hope::elsewhere};
}

std::expected<PrivateDescriptor, Failure> connect_once(const SocketAddress& address,
                                                       Clock::time_point limit) {
  auto fd = PrivateDescriptor::opened_by(
      [&] { return socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
  if (!fd) return std::unexpected(connect_failure(errno));
  const int on = 1;
  static_cast<void>(setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  int failed = connect(fd.get(), address.get(), address.size) == 0 ? 0 : errno;
  if (failed == EINPROGRESS || failed == EINTR) {
    if (!wait_until_ready(fd.get(), POLLOUT, limit))
      return std::unexpected(connect_failure(ETIMEDOUT));
    socklen_t size = sizeof failed;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
  }
  if (failed == 0 && is_connected_to_itself(fd.get())) failed = ECONNREFUSED;
  if (failed != 0) return std::unexpected(connect_failure(failed));
  return fd;
}

/// Exchanges hello, join and welcome over one connection.
class Handshake {
 public:
  Handshake(PrivateDescriptor socket, const SecureStream::Key& key, const Identity& identity,
            const Bytes& join)
      : socket_(std::move(socket)),
        stream_(SessionEnd::client, key, job_id(identity.job)),
        join_(join) {}

  std::expected<Welcomed, Failure> run(Clock::time_point limit) {
    for (;;) {
      auto frame = stream_.next();
      if (!frame) return std::unexpected(Failure{named(frame.error()), Hope::elsewhere});
      if (*frame) return answered(**frame);
      if (stream_.greeted() && !std::exchange(joined_, true)) stream_.send(join_);
      if (auto moved = move_bytes(limit); !moved) return std::unexpected(moved.error());
    }
  }

 private:
  static Error named(Error error) noexcept {
    error.operation = kSessionDialOperation;
    return error;
  }

  std::expected<Welcomed, Failure> answered(std::span<const std::byte> plaintext) {
    const auto kind = kind_of(plaintext);
    const auto body = plaintext.subspan(1);
    if (kind && *kind == MessageKind::welcome) {
      if (const auto welcome = decode<WelcomeMessage>(body))
        return Welcomed{std::move(socket_), std::move(stream_), *welcome};
    } else if (kind && *kind == MessageKind::refused) {
      if (const auto refused = decode<RefusedMessage>(body))
        return std::unexpected(Failure{refusal(*refused), Hope::none});
    } else if (kind && *kind == MessageKind::failed) {
      if (const auto failed = decode<FailedMessage>(body))
        return std::unexpected(Failure{failure_of(*failed, kSessionDialOperation), Hope::none});
    }
    return std::unexpected(Failure{
        Error{.code = Errc::malformed, .operation = kSessionDialOperation, .field = "welcome"},
        Hope::none});
  }

  /// Sends what is due, and reads what has come. Waits until one of them is possible.
  std::expected<void, Failure> move_bytes(Clock::time_point limit) {
    Bytes& outgoing = stream_.outgoing();
    if (!wait_until_ready(socket_.get(), outgoing.empty() ? POLLIN : POLLIN | POLLOUT, limit)) {
      Failure late = connect_failure(ETIMEDOUT);
      late.error.code = Errc::timed_out;
      return std::unexpected(late);
    }
    if (!outgoing.empty()) {
      const ssize_t sent =
          send(socket_.get(), outgoing.data(), outgoing.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) outgoing.erase(outgoing.begin(), outgoing.begin() + sent);
    }
    std::array<std::byte, 4096> chunk;  // NOLINT(*-member-init): recv() fills it.
    const ssize_t got = recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got > 0) stream_.feed(std::span{chunk}.first(static_cast<std::size_t>(got)));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return std::unexpected(ended());
    return {};
  }

  /// A coordinator that greets us and then hangs up does not accept our proof of the secret.
  [[nodiscard]] Failure ended() const noexcept {
    if (!stream_.greeted()) return connect_failure(ECONNRESET);
    return {
        Error{
            .code = Errc::permission_denied, .operation = kSessionDialOperation, .field = "secret"},
        Hope::elsewhere};
  }

  PrivateDescriptor socket_;
  SecureStream stream_;
  const Bytes& join_;
  bool joined_ = false;
};

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view part = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

/// Resolves all names. Fails only if none can be resolved.
Result<std::vector<SocketAddress>> addresses_of(const Identity& identity, const BoundedCall& call) {
  std::vector<HostPort> places;
  for (const std::string_view part : split(identity.coordinator))
    places.push_back(VERBATIM_TRY(parse_host_port(part, kSessionDialOperation)));
  std::vector<SocketAddress> addresses;
  Error last{
      .code = Errc::invalid_argument, .operation = kSessionDialOperation, .field = "coordinator"};
  for (std::size_t i = 0; i < places.size(); ++i) {
    // A name that cannot be resolved must leave time for the others.
    const auto now = Clock::now();
    const auto share = (call.deadline - now) / static_cast<Clock::rep>(places.size() - i);
    auto found = resolve(places[i], {call.operation, now + share});
    if (found)
      addresses.insert(addresses.end(), found->begin(), found->end());
    else
      last = found.error();
  }
  if (addresses.empty()) return std::unexpected(last);
  const auto remote = std::ranges::find_if_not(addresses, is_loopback);
  if (!identity.secret && remote != addresses.end())
    return std::unexpected(Error{
        .code = Errc::permission_denied, .operation = kSessionDialOperation, .field = "secret"}
                               .with_text(to_string(*remote)));
  return addresses;
}

/// The job's secret, or zeros if there is none. Wiped on destruction.
struct SessionKey {
  SecureStream::Key bytes{};
  explicit SessionKey(const std::optional<Secret>& secret) {
    if (secret) std::ranges::copy(secret->bytes(), bytes.begin());
  }
  ~SessionKey() { sodium_memzero(bytes.data(), bytes.size()); }
  SessionKey(const SessionKey&) = delete;
  SessionKey& operator=(const SessionKey&) = delete;
};

Bytes join_message(const Identity& identity, const JoinOptions& options) {
  const HostInfo host = this_host();
  return encode(JoinMessage{.rank = identity.rank,
                            .world = identity.world,
                            .algorithm = options.algorithm,
                            .host_high = host.high,
                            .host_low = host.low,
                            .processors = host.processors,
                            .record = options.record});
}

/// A random pause between half of `pause` and all of it, so that ranks that failed together do not
/// try again together.
Clock::duration jittered(Clock::duration pause) noexcept {
  const auto half = pause.count() / 2;
  return Clock::duration{
      half + static_cast<Clock::rep>(random_u64() % static_cast<std::uint64_t>(half + 1))};
}

}  // namespace

Error failure_of(const FailedMessage& message, const char* operation) noexcept {
  switch (message.why) {
    case FailedWhy::departed:
      return {.code = message.departure.why == Departed::left ? Errc::peer_closed : Errc::peer_lost,
              .operation = operation,
              .field = "rank",
              .value = message.departure.rank};
    case FailedWhy::too_large:
      return {.code = Errc::limit_exceeded,
              .operation = operation,
              .field = "bytes of all ranks",
              .value = message.value,
              .limit = kMaxExchangeBytes};
    case FailedWhy::mismatch: break;
  }
  return {.code = Errc::incompatible,
          .operation = operation,
          .field = "call of a rank",
          .value = message.departure.rank};
}

Result<Welcomed> dial_coordinator(const Identity& identity, const JoinOptions& options,
                                  Clock::time_point deadline) {
  const auto addresses = VERBATIM_TRY(addresses_of(identity, {kSessionDialOperation, deadline}));
  const Bytes join = join_message(identity, options);
  const SessionKey key{identity.secret};
  std::vector<int> doubts(addresses.size());
  Clock::duration pause = 5ms;
  for (;;) {
    std::optional<Error> telling;  // A coordinator answered, but not usefully.
    Error last{};
    bool hope = false;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const auto now = Clock::now();
      const auto share = std::max<Clock::duration>(deadline - now, Clock::duration::zero()) /
                         static_cast<Clock::rep>(addresses.size() - i);
      const auto limit = now + std::min(share, kLongestAttempt);
      auto socket = connect_once(addresses[i], limit);
      auto welcomed = socket ? Handshake{*std::move(socket), key.bytes, identity, join}.run(limit)
                             : std::unexpected(socket.error());
      if (welcomed) return *std::move(welcomed);
      const Failure& failure = welcomed.error();
      if (failure.hope == Hope::none) return std::unexpected(failure.error);
      // A coordinator that ended just then looks the same as one that rejects our secret.
      const bool sure = failure.hope == Hope::elsewhere &&
                        (failure.error.code != Errc::permission_denied || ++doubts[i] > 2);
      hope = hope || !sure;
      last = failure.error;
      if (failure.hope == Hope::elsewhere && !telling) telling = failure.error;
    }
    const auto now = Clock::now();
    if (!hope) return std::unexpected(*telling);
    if (now >= deadline) {
      if (telling) return std::unexpected(*telling);
      last.code = Errc::timed_out;
      return std::unexpected(last.with_text(identity.coordinator));
    }
    sleep_until(std::min(deadline, now + jittered(pause)));
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace verbatim::detail
