// SPDX-License-Identifier: MIT OR Apache-2.0
// A pool: one registration for many buffers, which return to it by themselves.
#include <verbatim/verbatim.hpp>

#include <cstdio>
#include <cstring>
#include <string_view>

namespace vb = verbatim;

namespace {

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [left, right] = VERBATIM_TRY(vb::connect_pair(domain));

  // [pool]
  auto pools = VERBATIM_TRY(
      vb::Pools::create(domain, {{.bytes = 256, .count = 64}, {.bytes = 65536, .count = 8}}));
  auto receiving = right.receive(VERBATIM_TRY(pools.take(65536)));
  const std::string_view words = "taken, filled, sent, dropped";
  {
    vb::Buffer buffer = VERBATIM_TRY(pools.take(words.size()));  // the smallest that holds them
    std::memcpy(buffer.bytes().data(), words.data(), words.size());
    auto sending = left.send(std::move(buffer), {.length = words.size()});
    VERBATIM_TRY(sending.wait().result);  // the buffer is dropped here, and is free again
  }
  // [/pool]
  auto [message, result] = receiving.wait();
  VERBATIM_TRY(result);
  if (std::memcmp(message.bytes().data(), words.data(), words.size()) != 0)
    return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});
  for (const vb::Pool& pool : pools.pools())
    std::printf("%zu bytes: %u of %u free\n", pool.bytes(), pool.free(), pool.count());
  return {};
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
