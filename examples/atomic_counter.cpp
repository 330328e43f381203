// SPDX-License-Identifier: MIT OR Apache-2.0
// A counter in one process's memory that peers increment, without any work by that process.
#include <verbatim/verbatim.hpp>

#include <cstdio>
#include <thread>

namespace vb = verbatim;

namespace {

constexpr std::uint64_t kEach = 500;

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  if (!context.capabilities().atomics) {
    std::printf("this device has no atomics\n");
    return {};
  }
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [first, first_peer] = VERBATIM_TRY(vb::connect_pair(domain));
  auto [second, second_peer] = VERBATIM_TRY(vb::connect_pair(domain));

  // [atomics]
  auto memory = VERBATIM_TRY(domain.allocate_shared(64, vb::Access::remote_atomic));
  const auto counter = VERBATIM_TRY(vb::RemoteAtomic::at(memory.remote()));  // fails unless aligned
  const auto count = [&](vb::Channel& channel) -> vb::Result<void> {
    for (std::uint64_t i = 0; i < kEach; ++i)
      static_cast<void>(VERBATIM_TRY(channel.fetch_add(counter, 1)));
    return {};
  };
  vb::Result<void> other;
  std::thread thread([&] { other = count(second); });  // a channel per thread
  const auto own = count(first);
  thread.join();
  VERBATIM_TRY(own);
  VERBATIM_TRY(other);
  const auto before = VERBATIM_TRY(first.compare_swap(counter, 2 * kEach, 0));  // read and reset
  // [/atomics]
  const auto now = memory.load_acquire<std::uint64_t>(0);
  std::printf("two peers counted to %llu; reset to %llu\n", static_cast<unsigned long long>(before),
              static_cast<unsigned long long>(now));
  if (before == 2 * kEach && now == 0) return {};
  return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
