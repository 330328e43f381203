// SPDX-License-Identifier: MIT OR Apache-2.0
//
// fanout_driver PEERS BYTES ROUNDS   one process writes BYTES to each of PEERS others: by a loop of
//                                     blocking writes on channels with separate queues, and by one
//                                     scatter(). The two take turns. JSON on stdout.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "verbatim/verbatim.hpp"

namespace {

namespace vb = verbatim;
using Clock = std::chrono::steady_clock;
constexpr int kTurns = 40;   // of a round; only the best counts, since others were disturbed
constexpr int kRepeats = 5;  // of a turn
constexpr std::uint32_t kDepth = 16;

[[noreturn]] void give_up(const vb::Error& error) {
  std::fprintf(stderr, "fanout_driver: %s\n", to_string(error).c_str());
  std::_Exit(1);
}
template <class T>
T need(vb::Result<T> result) {
  if (!result) give_up(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// Carries messages between two processes that are connected by a pair of sockets.
class Carrier {
 public:
  explicit Carrier(int fd) : fd_(fd) {}
  void put(std::span<const std::byte> bytes) const {
    if (send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) std::_Exit(1);
  }
  [[nodiscard]] std::vector<std::byte> get() const {
    std::vector<std::byte> bytes(4096);
    const auto count = recv(fd_, bytes.data(), bytes.size(), 0);
    if (count <= 0) std::_Exit(1);
    bytes.resize(static_cast<std::size_t>(count));
    return bytes;
  }
  void put(const vb::Endpoint& endpoint) const { put(encode(endpoint)); }
  [[nodiscard]] vb::Endpoint endpoint() const { return need(vb::decode_endpoint(get())); }
  /// Waits until the other side is gone.
  void wait_for_end() const {
    std::byte nothing;
    while (recv(fd_, &nothing, 1, 0) > 0) continue;
  }

 private:
  int fd_;
};

vb::PreparedChannel prepare(const vb::ProtectionDomain& domain) {
  return need(vb::PreparedChannel::create(domain, {.max_sends = kDepth, .max_receives = kDepth}));
}

void be_peer(const Carrier& root, std::size_t bytes) {
  const auto domain = need(need(vb::open_device("soft0")).allocate_domain());
  const auto region = need(domain.allocate_shared(bytes, vb::Access::remote_write));
  auto first = prepare(domain);
  auto second = prepare(domain);
  root.put(encode(region.remote()));
  root.put(first.endpoint());
  root.put(second.endpoint());
  const auto alone = need(std::move(first).connect(root.endpoint()));
  const auto in_group = need(std::move(second).connect(root.endpoint()));
  root.put(std::array{std::byte{1}});
  root.wait_for_end();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

class Root {
 public:
  Root(const std::vector<Carrier>& peers, std::size_t bytes)
      : buffer_(need(domain_.allocate(bytes))) {
    for (const Carrier& peer : peers) {
      const auto region = need(vb::decode_remote_memory(peer.get()));
      auto alone = prepare(domain_);
      auto in_group = need(multi_.prepare());
      peer.put(alone.endpoint());
      peer.put(in_group.endpoint());
      alone_.push_back(need(std::move(alone).connect(peer.endpoint())));
      const auto index = need(multi_.add(need(std::move(in_group).connect(peer.endpoint()))));
      writes_.push_back(vb::PeerRemoteMemory{index, region}.write(buffer_.gather()));
      static_cast<void>(peer.get());  // The peer is connected, too.
    }
  }

  void loop() {
    for (const auto& each : writes_) static_cast<void>(need(alone_[each.peer].run(each.work)));
  }
  void scatter() {
    if (const auto done = multi_.scatter(writes_); !done) give_up(done.error());
  }
  [[nodiscard]] double bytes() const {
    return static_cast<double>(buffer_.size()) * static_cast<double>(writes_.size());
  }

 private:
  vb::ProtectionDomain domain_ = need(need(vb::open_device("soft0")).allocate_domain());
  vb::Reactor reactor_ = need(vb::Reactor::create(domain_));
  vb::MultiChannel multi_{reactor_, domain_};
  vb::Buffer buffer_;
  std::vector<vb::Channel> alone_{};
  std::vector<vb::PeerWork<vb::Write<1>>> writes_{};
};

template <class Way>
double seconds(Way way) {
  const auto start = Clock::now();
  for (int i = 0; i < kRepeats; ++i) way();
  return std::chrono::duration<double>{Clock::now() - start}.count() / kRepeats;
}

void measure(Root& root, long rounds) {
  std::vector<double> loops;
  std::vector<double> scatters;
  std::vector<double> ratios;
  for (long round = 0; round < rounds; ++round) {
    double loop = 1e9;
    double scatter = 1e9;
    for (int turn = 0; turn < kTurns; ++turn) {
      loop = std::min(loop, seconds([&] { root.loop(); }));
      scatter = std::min(scatter, seconds([&] { root.scatter(); }));
    }
    loops.push_back(root.bytes() / loop / 1e9);
    scatters.push_back(root.bytes() / scatter / 1e9);
    ratios.push_back(loop / scatter);
  }
  std::printf("{\"loop\":%.3f,\"scatter\":%.3f,\"ratio\":%.3f}\n", median(std::move(loops)),
              median(std::move(scatters)), median(std::move(ratios)));
}

}  // namespace

int main(int argc, char** argv) {
  std::array<long, 3> numbers{};
  if (argc == 4)
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::string_view word{argv[i + 1]};
      std::from_chars(word.begin(), word.end(), numbers[i]);
    }
  const auto [peers, bytes, rounds] = numbers;
  if (peers < 1 || bytes < 1 || rounds < 1) {
    std::fputs("usage: fanout_driver PEERS BYTES ROUNDS\n", stderr);
    return 2;
  }
  std::vector<Carrier> carriers;
  for (long i = 0; i < peers; ++i) {  // First: devices do not survive a fork.
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return 1;
    if (fork() == 0) {
      close(ends[0]);
      be_peer(Carrier{ends[1]}, static_cast<std::size_t>(bytes));
      std::_Exit(0);
    }
    close(ends[1]);
    carriers.emplace_back(ends[0]);
  }
  Root root{carriers, static_cast<std::size_t>(bytes)};
  measure(root, rounds);
  std::fflush(stdout);
  std::_Exit(0);  // The peers notice, and exit.
}
