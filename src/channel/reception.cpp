// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/reception.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/timespec.hpp"
#include "channel/tcp.hpp"
#include "channel/unix_socket.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// A name to listen on belongs to this machine. It resolves quickly, or not at all.
constexpr std::chrono::seconds kLocalLookup{5};
/// How many clients one turn accepts from the kernel, so that handshakes get their turn, too.
constexpr int kWelcomedAtOnce = 64;
/// How many events one look reports.
constexpr int kEvents = 64;

// The source of an event. Clients have the numbers from kFirstGuest on.
constexpr std::uint64_t kListeningSocket = 0;
constexpr std::uint64_t kTimer = 1;
constexpr std::uint64_t kFirstGuest = 2;

constexpr const char* kOpen = "Listener::open";
constexpr const char* kAccept = "accept";

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT);

bool is_out_of_descriptors(const Error& error) noexcept {
  return error.os_error == EMFILE || error.os_error == ENFILE;
}

Result<PrivateDescriptor> listen_at(std::string_view address, const ListenOptions& options) {
  const BoundedCall call{.operation = kOpen, .deadline = deadline_after(kLocalLookup)};
  if (is_unix(address))
    return listen_unix(VERBATIM_TRY(parse_unix(address, kOpen)), options.backlog,
                       options.same_user_only ? SocketFile::own_user : SocketFile::everybody,
                       kOpen);
  const auto where = VERBATIM_TRY(parse_host_port(address, kOpen));
  auto socket = listen_on_any(VERBATIM_TRY(resolve_local(where, call)), options.backlog, call);
  if (!socket) return std::unexpected(socket.error().with_text(address));
  return socket;
}

}  // namespace

Reception::Reception(const ProtectionDomain& domain, ListenOptions options,
                     PrivateDescriptor socket, const SocketAddress& local)
    : domain_(domain),
      options_(std::move(options)),
      terms_{.operation = kAccept,
             .listens = true,
             .domain = domain_,
             .channel = options_.channel,
             .prepare = options_.prepare,
             .admit = options_.admit,
             .private_data = options_.private_data,
             .same_user_only = options_.same_user_only},
      local_(local),
      address_(to_string(local)),
      process_(getpid()),
      listening_(std::move(socket)),
      next_guest_(kFirstGuest) {}

Reception::~Reception() {
  if (getpid() == process_) remove_socket_file(local_);
}

Result<std::unique_ptr<Reception>> Reception::open(const ProtectionDomain& domain,
                                                   std::string_view address,
                                                   ListenOptions options) {
  VERBATIM_TRY(check_private_data(options.private_data.size(), kOpen));
  if (options.max_handshakes == 0)
    return std::unexpected(
        Error{.code = Errc::invalid_argument, .operation = kOpen, .field = "max_handshakes"});
  auto socket = VERBATIM_TRY(listen_at(address, options));
  const auto local = VERBATIM_TRY(local_address(socket.get(), kOpen));
  std::unique_ptr<Reception> made{
      new Reception{domain, std::move(options), std::move(socket), local}};  // tidy: private
  VERBATIM_TRY(made->prepare());
  return made;
}

bool Reception::watch(int operation, int fd, std::uint32_t events, GuestNumber number) noexcept {
  epoll_event event{.events = events, .data = {.u64 = number}};
  return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

Result<void> Reception::prepare() {
  epoll_ = PrivateDescriptor::opened_by([] { return epoll_create1(EPOLL_CLOEXEC); });
  timer_ = PrivateDescriptor::opened_by(
      [] { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK); });
  if (!epoll_ || !timer_ || !watch(EPOLL_CTL_ADD, listening_.get(), EPOLLIN, kListeningSocket) ||
      !watch(EPOLL_CTL_ADD, timer_.get(), EPOLLIN, kTimer))
    return std::unexpected(os_failure(kOpen, errno));
  return {};
}

Result<std::optional<Connection>> Reception::turn() {
  if (getpid() != process_)
    return std::unexpected(Error{.code = Errc::forked, .operation = kAccept});
  const std::lock_guard lock{mutex_};
  if (outcomes_.empty()) serve();
  std::optional<Result<Connection>> outcome;
  if (!outcomes_.empty()) {
    outcome.emplace(std::move(outcomes_.front()));
    outcomes_.pop_front();
  }
  set_timer();
  if (!outcome) return std::nullopt;
  if (!*outcome) return std::unexpected(outcome->error());
  return std::optional{**std::move(outcome)};
}

void Reception::serve() {
  std::array<epoll_event, kEvents> events{};
  bool clients = false;
  // Events come before time-outs: what has arrived in time counts, however late we look, and
  // however many guests it came from. Each look reports others first.
  std::size_t looks = guests_.size() / kEvents + 1;
  for (int count = kEvents; count == kEvents && looks > 0; --looks) {
    count = epoll_wait(epoll_.get(), events.data(), kEvents, 0);
    for (const epoll_event& event :
         std::span{events}.first(static_cast<std::size_t>(std::max(count, 0)))) {
      if (event.data.u64 == kListeningSocket)
        clients = true;
      else if (event.data.u64 != kTimer)  // set_timer() clears that one.
        advance(event.data.u64);
    }
  }
  expire();
  if (clients) welcome();  // They come last.
}

void Reception::welcome() {
  for (int i = 0; i < kWelcomedAtOnce; ++i) {
    // Without a free descriptor, accept() fails even when no client waits.
    if (!wait_until_ready(listening_.get(), POLLIN, {})) return;
    auto client = try_accept(listening_.get(), kAccept);
    if (!client && is_out_of_descriptors(client.error()) && !guests_.empty()) {
      make_room();
      continue;
    }
    if (!client) {
      outcomes_.emplace_back(std::unexpect, client.error());
      return;
    }
    if (!*client) return;
    if (guests_.size() >= options_.max_handshakes) make_room();
    PrivateDescriptor socket = **std::move(client);
    const GuestNumber number = next_guest_++;
    Peer peer = peer_of(socket.get(), address_);
    if (!watch(EPOLL_CTL_ADD, socket.get(), EPOLLIN, number)) {
      outcomes_.emplace_back(std::unexpect, os_failure(kAccept, errno));
      return;
    }
    guests_.try_emplace(number, terms_, std::move(socket), std::move(peer),
                        deadline_after(options_.handshake_timeout));
    advance(number);
  }
}

void Reception::make_room() {
  // Drops the oldest, whatever it has sent. A rule that prefers some clients could be used to keep
  // the others out.
  const auto oldest = guests_.begin();
  const Error crowded{.code = Errc::busy,
                      .operation = kAccept,
                      .field = "handshakes at once",
                      .value = guests_.size(),
                      .limit = options_.max_handshakes};
  oldest->second.refuse(crowded);
  drop(oldest, crowded);
}

void Reception::advance(GuestNumber number) {
  const auto guest = guests_.find(number);
  if (guest == guests_.end()) return;  // Dropped since the event was read.
  Handshake& handshake = guest->second;
  const short wanted = handshake.wanted();
  const auto met = handshake.step();
  if (!met) {
    if (handshake.is_own_fault()) outcomes_.emplace_back(std::unexpect, met.error());
    drop(guest, met.error());
  } else if (*met) {
    static_cast<void>(watch(EPOLL_CTL_DEL, handshake.fd(), 0, number));
    outcomes_.emplace_back(std::move(handshake).take());
    guests_.erase(guest);
  } else if (handshake.wanted() != wanted) {
    static_cast<void>(watch(EPOLL_CTL_MOD, handshake.fd(),
                            static_cast<std::uint32_t>(handshake.wanted()), number));
  }
}

void Reception::expire() {
  const auto now = Clock::now();
  while (!guests_.empty() && guests_.begin()->second.deadline() <= now) {
    const Error late = guests_.begin()->second.too_late();
    guests_.begin()->second.refuse(late);
    drop(guests_.begin(), late);
  }
}

void Reception::drop(std::map<GuestNumber, Handshake>::iterator guest, const Error& why) {
  const Peer peer = guest->second.peer();
  guests_.erase(guest);  // Closing its socket removes it from the epoll set.
  if (log_enabled())
    log(LogLevel::warning, address_ + ": no channel for " + peer.address + ": " + to_string(why));
  if (!options_.on_dropped) return;
  try {
    options_.on_dropped(peer, why);
  } catch (const std::exception& thrown) {
    log(LogLevel::error, address_ + ": on_dropped: " + thrown.what());
  }
}

void Reception::set_timer() noexcept {
  Clock::time_point when{};
  if (!outcomes_.empty())
    when = Clock::time_point{Clock::duration{1}};  // At once, and until the next change.
  else if (!guests_.empty())
    when = guests_.begin()->second.deadline();
  if (when == timer_at_ && (when == Clock::time_point{} || when > Clock::now())) return;
  timer_at_ = when;
  const itimerspec setting{.it_interval = {}, .it_value = to_timespec(when.time_since_epoch())};
  static_cast<void>(timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr));
}

}  // namespace verbatim::detail
