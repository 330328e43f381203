// SPDX-License-Identifier: MIT OR Apache-2.0
#include "line_stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>

#include "channel/tcp.hpp"

namespace verbatim::cli {
namespace {

constexpr const char* kOperation = "doctor";

std::unexpected<Error> failed(Errc code, const char* field) {
  return std::unexpected(Error{.code = code, .operation = kOperation, .field = field});
}

bool is_for_later(int os_error) noexcept {
  return os_error == EAGAIN || os_error == EWOULDBLOCK || os_error == EINTR;
}

}  // namespace

Result<nlohmann::json> LineStream::read(Clock::time_point deadline) {
  std::size_t end = 0;
  while ((end = buffered_.find('\n')) == std::string::npos) {
    if (buffered_.size() >= kMaxLineBytes)
      return std::unexpected(Error{.code = Errc::limit_exceeded,
                                   .operation = kOperation,
                                   .field = "line",
                                   .value = buffered_.size(),
                                   .limit = kMaxLineBytes});
    if (!detail::wait_until_ready(socket_.get(), POLLIN, deadline))
      return failed(Errc::timed_out, "the peer's word");
    char block[4096];
    const ssize_t got = recv(socket_.get(), block, sizeof block, 0);
    if (got == 0) return failed(Errc::closed, "the peer's word");
    if (got < 0 && !is_for_later(errno)) return std::unexpected(os_failure("recv", errno));
    if (got > 0) buffered_.append(block, static_cast<std::size_t>(got));
  }
  const std::string line = buffered_.substr(0, end);
  buffered_.erase(0, end + 1);
  auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return failed(Errc::malformed, "the peer's word");
  return object;
}

Result<void> LineStream::write(const nlohmann::json& object, Clock::time_point deadline) {
  const std::string line =
      object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    if (!detail::wait_until_ready(socket_.get(), POLLOUT, deadline))
      return failed(Errc::timed_out, "room for our word");
    const ssize_t put = send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (put < 0 && !is_for_later(errno)) return std::unexpected(os_failure("send", errno));
    if (put > 0) rest.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

}  // namespace verbatim::cli
