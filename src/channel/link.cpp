// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace verbatim::detail {
namespace {

void set(int fd, int level, int option, int value) noexcept {
  static_cast<void>(setsockopt(fd, level, option, &value, sizeof value));
}

/// Sets the options by which TCP notices a host that has vanished. Sockets of other families lack
/// some of them; those calls fail, without harm.
void watch_for_silence(int fd) noexcept {
  constexpr int kProbes = 3;
  constexpr int kBetweenProbes = 2;
  constexpr int kSilence = static_cast<int>(Link::kSilence.count());
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kSilence - kProbes * kBetweenProbes);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kBetweenProbes);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilence * 1000);
}

}  // namespace

std::string_view to_string(LinkState state) noexcept {
  switch (state) {
    case LinkState::none: return "none";
    case LinkState::open: return "open";
    case LinkState::leaving: return "leaving";
    case LinkState::finished: return "finished";
    case LinkState::lost: return "lost";
  }
  return "";
}

Link::Link(PrivateDescriptor socket) noexcept
    : socket_(std::move(socket)), state_(socket_ ? LinkState::open : LinkState::none) {
  if (socket_) watch_for_silence(socket_.get());
}

void Link::end(const Error& why) noexcept {
  state_ = LinkState::lost;
  cause_ = why;
}

LinkState Link::look() noexcept {
  while (state() == LinkState::open || state() == LinkState::leaving) {
    const ssize_t got = recv(socket_.get(), heard_.data() + heard_bytes_,
                             heard_.size() - heard_bytes_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) {
      Error broken = os_failure("link", errno);
      broken.code = Errc::closed;
      end(broken);
    } else if (got == 0 && state_ == LinkState::leaving && heard_bytes_ == 0) {
      state_ = LinkState::finished;
    } else if (got == 0) {
      end({.code = Errc::closed, .operation = "link", .field = name_of(FrameKind::done)});
    } else if (heard_bytes_ += static_cast<std::uint8_t>(got); heard_bytes_ == heard_.size()) {
      heard_bytes_ = 0;
      if (heard_ == kDoneFrame)
        state_ = LinkState::leaving;
      else
        end({.code = Errc::malformed, .operation = "link", .field = name_of(FrameKind::done)});
    }
  }
  return state();
}

bool Link::say_done() noexcept {
  while (socket_ && said_bytes_ < kDoneFrame.size()) {
    const ssize_t sent = send(socket_.get(), kDoneFrame.data() + said_bytes_,
                              kDoneFrame.size() - said_bytes_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0)
      said_bytes_ += static_cast<std::uint8_t>(sent);
    else if (errno != EINTR)
      return false;  // look() will see what is wrong with the connection.
  }
  return said_bytes_ == kDoneFrame.size();
}

}  // namespace verbatim::detail
