// SPDX-License-Identifier: MIT OR Apache-2.0
// Code of manual/coming_from/rsocket.md: a stream of bytes over a channel, in a few lines.
#include <verbatim/verbatim.hpp>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kPieceBytes = 4096;
constexpr std::size_t kInFlight = 8;

// [write]
/// Sends all data, in pieces. The caller may reuse its memory when this returns.
vb::Result<void> write_all(vb::Channel& channel, std::span<const std::byte> data) {
  const auto region = VERBATIM_TRY(channel.domain().register_read_only(data));
  VERBATIM_TRY(channel.scope([&](vb::Scope& scope) {
    for (; !data.empty(); data = data.subspan(std::min(kPieceBytes, data.size())))
      scope.post_detached(vb::Send{region.gather(data.first(std::min(kPieceBytes, data.size())))});
  }));
  return {};
}
// [/write]

// [read]
/// Receives until the peer closes. Some receives are always posted ahead of the sender.
vb::Result<std::vector<std::byte>> read_to_end(vb::Channel& channel) {
  std::vector<vb::Pending<vb::Buffer>> receiving;
  receiving.reserve(kInFlight);
  for (std::size_t i = 0; i < kInFlight; ++i)
    receiving.push_back(channel.receive(VERBATIM_TRY(channel.domain().allocate(kPieceBytes))));
  std::vector<std::byte> all;
  for (std::size_t next = 0;; next = (next + 1) % kInFlight) {
    auto piece = receiving[next].wait(vb::kForever);
    if (piece.result == vb::Errc::peer_closed) return all;  // where recv() returns 0
    VERBATIM_TRY(piece.result);
    all.insert(all.end(), piece.received().begin(), piece.received().end());
    receiving[next] = channel.receive(std::move(piece.buffer));
  }
}
// [/read]

vb::Result<std::vector<std::byte>> serve(const vb::Listener& listener) {
  auto channel = VERBATIM_TRY(listener.accept()).channel;
  auto all = VERBATIM_TRY(read_to_end(channel));
  VERBATIM_TRY(channel.close());
  return all;
}

// [client]
vb::Result<void> send_file(const vb::ProtectionDomain& domain, const std::string& address,
                           std::span<const std::byte> data) {
  auto channel = VERBATIM_TRY(vb::dial(domain, address)).channel;  // rsocket, rconnect
  VERBATIM_TRY(write_all(channel, data));                          // rsend
  return channel.close();                                          // rshutdown, rclose
}
// [/client]

vb::Result<bool> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto listener = VERBATIM_TRY(vb::Listener::open(domain, "127.0.0.1:0"));
  std::vector<std::byte> data(1'000'000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  vb::Result<void> sent;
  std::jthread client([&] { sent = send_file(domain, listener.address(), data); });
  const auto received = serve(listener);
  client.join();
  VERBATIM_TRY(sent);
  return VERBATIM_TRY(received) == data;
}

}  // namespace

int main() {
  const auto same = run();
  if (!same) std::fprintf(stderr, "%s\n", vb::explain(same.error()).c_str());
  return same && *same ? 0 : 1;
}
