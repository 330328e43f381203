// SPDX-License-Identifier: MIT OR Apache-2.0
// Owned buffers in flight: a few buffers circulate, and the compiler knows who holds which.
#include <verbatim/verbatim.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <span>

namespace vb = verbatim;

namespace {

constexpr std::uint64_t kMessages = 100;
constexpr std::size_t kDepth = 4;

std::uint64_t number_in(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
  return number;
}

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [left, right] = VERBATIM_TRY(vb::connect_pair(domain));

  // [owned]
  std::deque<vb::Pending<vb::Buffer>> receiving;  // always kDepth receives ahead of the sender
  for (std::size_t i = 0; i < kDepth; ++i)
    receiving.push_back(right.receive(VERBATIM_TRY(domain.allocate(64))));
  auto outgoing = VERBATIM_TRY(domain.allocate(sizeof(std::uint64_t)));
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    outgoing.with([&](std::span<std::byte> bytes) { std::memcpy(bytes.data(), &i, sizeof i); });
    auto [sent, send_result] = left.send(std::move(outgoing)).wait();
    outgoing = std::move(sent);  // the buffer comes back even if the send failed
    VERBATIM_TRY(send_result);

    auto message = receiving.front().wait();
    VERBATIM_TRY(message.result);
    receiving.pop_front();
    if (number_in(message.received()) != i)  // the bytes that arrived: 8 of the 64
      return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});
    receiving.push_back(right.receive(std::move(message.buffer)));  // and posted again
  }
  // [/owned]
  std::printf("%llu messages through %zu buffers, none copied, none lost\n",
              static_cast<unsigned long long>(kMessages), kDepth + 1);
  return {};  // the receives that are still posted are dropped: their slots keep the buffers
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
