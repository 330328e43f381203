// SPDX-License-Identifier: MIT OR Apache-2.0
#include "record_stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "channel/tcp.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::cli {
namespace {

constexpr const char* kRead = "read_record";
constexpr const char* kWrite = "write_record";

std::unexpected<Error> failed(Errc code, const char* operation) {
  return std::unexpected(Error{.code = code, .operation = operation});
}

bool is_for_later(int os_error) noexcept {
  return os_error == EAGAIN || os_error == EWOULDBLOCK || os_error == EINTR;
}

}  // namespace

RecordStream::RecordStream(detail::PrivateDescriptor socket, Cancelled is_cancelled) noexcept
    : socket_(std::move(socket)), is_cancelled_(is_cancelled) {
  const int on = 1;  // Fails if it is not TCP, and does not matter there.
  static_cast<void>(setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

Result<void> RecordStream::wait(short events, Clock::time_point deadline) const {
  const char* const operation = events == POLLIN ? kRead : kWrite;
  constexpr auto kStep = std::chrono::milliseconds{100};  // A cancel is noticed that soon.
  for (;;) {
    if (is_cancelled_ != nullptr && is_cancelled_()) return failed(Errc::cancelled, operation);
    const auto until =
        is_cancelled_ != nullptr ? std::min(deadline, Clock::now() + kStep) : deadline;
    if (detail::wait_until_ready(socket_.get(), events, until)) return {};
    if (Clock::now() >= deadline) return failed(Errc::timed_out, operation);
  }
}

Result<nlohmann::json> RecordStream::read(Clock::time_point deadline) {
  std::size_t end = 0;
  std::size_t searched = 0;
  while ((end = buffered_.find('\n', searched)) == std::string::npos) {
    searched = buffered_.size();
    if (searched >= kMaxLineBytes)
      return std::unexpected(Error{.code = Errc::limit_exceeded,
                                   .operation = kRead,
                                   .field = "line",
                                   .value = searched,
                                   .limit = kMaxLineBytes});
    char block[4096];
    const ssize_t got = recv(socket_.get(), block, sizeof block, MSG_DONTWAIT);
    if (got == 0) return failed(Errc::closed, kRead);
    if (got > 0)
      buffered_.append(block, static_cast<std::size_t>(got));
    else if (is_for_later(errno))
      VERBATIM_TRY(wait(POLLIN, deadline));
    else
      return std::unexpected(os_failure("recv", errno));
  }
  auto object = nlohmann::json::parse(std::string_view{buffered_}.substr(0, end), nullptr, false);
  buffered_.erase(0, end + 1);
  if (!object.is_object()) return failed(Errc::malformed, kRead);
  return object;
}

Result<void> RecordStream::write(const nlohmann::json& object, Clock::time_point deadline) {
  const std::string line =
      object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t put =
        ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put >= 0)
      rest.remove_prefix(static_cast<std::size_t>(put));
    else if (is_for_later(errno))
      VERBATIM_TRY(wait(POLLOUT, deadline));
    else
      return std::unexpected(os_failure("send", errno));
  }
  return {};
}

bool RecordStream::is_readable() const noexcept {
  pollfd one{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return !buffered_.empty() || poll(&one, 1, 0) > 0;
}

Result<bool> RecordStream::has_ended(Clock::time_point deadline) const {
  if (!buffered_.empty()) return false;
  VERBATIM_TRY(wait(POLLIN, deadline));
  char first = 0;
  return recv(socket_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace verbatim::cli
