// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

namespace verbatim::detail {
namespace {

void set(int fd, int level, int option, int value) noexcept {
  static_cast<void>(setsockopt(fd, level, option, &value, sizeof value));
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

Link::Link(PrivateDescriptor socket) noexcept
    : socket_(std::move(socket)), state_(socket_ ? LinkState::open : LinkState::none) {
  if (socket_) watch_for_silence(socket_.get());
}

LinkState Link::look() noexcept {
  while (state() == LinkState::open || state() == LinkState::leaving) {
    const auto frame = reader_.step(socket_.get(), "link", "the peer's done");
    if (frame && !*frame) break;
    if (!frame) {
      const bool ended = frame.error() == Errc::closed && frame.error().os_error == 0;
      if (state_ == LinkState::leaving && ended) {
        state_ = LinkState::finished;
      } else {
        state_ = LinkState::lost;
        cause_ = frame.error();
      }
    } else if ((*frame)->kind == FrameKind::done && (*frame)->payload.empty()) {
      state_ = LinkState::leaving;
    } else {
      state_ = LinkState::lost;
      cause_ = Error{.code = Errc::malformed,
                     .operation = "link",
                     .field = "frame kind",
                     .value = static_cast<std::uint8_t>((*frame)->kind),
                     .limit = static_cast<std::uint8_t>(FrameKind::done)};
    }
  }
  return state();
}

bool Link::say_done() noexcept {
  if (said_done_) return true;
  if (!socket_) return false;
  // Eight bytes after a handshake that was answered: a socket that does not take them at once has
  // a peer that is gone.
  FrameWriter writer;
  writer.put(FrameKind::done, {});
  said_done_ = writer.step(socket_.get(), "link").value_or(false);
  return said_done_;
}

PrivateDescriptor Link::release() noexcept {
  state_ = LinkState::none;
  return std::move(socket_);
}

}  // namespace verbatim::detail
