// SPDX-License-Identifier: MIT OR Apache-2.0
// A write with immediate: the data goes into the peer's memory, and a number notifies the peer.
#include <verbatim/verbatim.hpp>

#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace vb = verbatim;

namespace {

constexpr std::size_t kBlockBytes = 4096;
constexpr std::uint32_t kBlocks = 8;

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [producer, consumer] = VERBATIM_TRY(vb::connect_pair(domain));
  auto window =
      VERBATIM_TRY(domain.allocate_shared(kBlocks * kBlockBytes, vb::Access::remote_write));

  // [immediate]
  // Each receive takes one number and no data, so it needs no memory.
  auto notices = consumer.receive_each(std::vector<vb::NoMemory>(kBlocks));

  auto block = VERBATIM_TRY(domain.allocate(kBlockBytes));
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    std::memset(block.bytes().data(), static_cast<int>('a' + i), kBlockBytes);
    const auto target = *window.remote().sub_region(i * kBlockBytes, kBlockBytes);
    VERBATIM_TRY(producer.write(block.gather(), target, {.immediate = i}));
  }
  for (auto& notice : notices) {
    const auto done = notice.wait();
    const auto index = VERBATIM_TRY(done.result).immediate().value();  // block `index` is complete
    const auto arrived = window.quiescent_bytes().subspan(index * kBlockBytes, kBlockBytes);
    std::printf("block %u is there: %c...%c\n", index, static_cast<char>(arrived.front()),
                static_cast<char>(arrived.back()));
    for (const std::byte byte : arrived)
      if (byte != static_cast<std::byte>('a' + index))
        return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});
  }
  // [/immediate]
  return {};
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
