// SPDX-License-Identifier: MIT OR Apache-2.0
// The first minute: two channels in this process, and one message between them.
#include <verbatim/verbatim.hpp>

#include <cstdio>
#include <cstring>

namespace vb = verbatim;

namespace {

// [readme]
vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());  // the first RDMA device, else the built-in soft0
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [left, right] = VERBATIM_TRY(vb::connect_pair(domain));  // two connected channels

  auto rx = VERBATIM_TRY(domain.allocate(64));  // registered memory that we own
  auto tx = VERBATIM_TRY(domain.allocate(64));
  tx.with([](std::span<std::byte> bytes) { std::memcpy(bytes.data(), "hello, RDMA", 12); });

  auto receiving = right.receive(std::move(rx));  // the buffers are gone until wait() ...
  auto sending = left.send(std::move(tx), {.length = 12});
  auto [sent, send_result] = sending.wait();  // ... returns them
  auto [received, result] = receiving.wait();
  VERBATIM_TRY(send_result);
  const auto message = received.bytes().first(VERBATIM_TRY(result).byte_count().value());
  std::printf("received %zu bytes: %s\n", message.size(),
              reinterpret_cast<const char*>(message.data()));
  if (message.size() == 12 && std::memcmp(message.data(), "hello, RDMA", 12) == 0) return {};
  return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});
}
// [/readme]

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
