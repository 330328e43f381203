// SPDX-License-Identifier: MIT OR Apache-2.0
// Borrowed memory without a scope: a ring of receives that the program keeps filled.
#include <verbatim/verbatim.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace vb = verbatim;

namespace {

constexpr std::size_t kPlaces = 4;
constexpr std::uint64_t kMessages = 100;

vb::Result<std::uint64_t> run() {
  std::array<std::uint64_t, kPlaces> ring{};  // first: it outlives the channels
  std::uint64_t number = 0;
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [left, right] = VERBATIM_TRY(vb::connect_pair(domain));

  // [unsafe]
  const auto places = VERBATIM_TRY(domain.register_local(ring));
  std::vector<vb::unsafe::PendingWork> receiving;  // the device owns a place until its wait()
  receiving.reserve(kPlaces);
  for (std::uint64_t& place : ring)
    receiving.push_back(vb::unsafe::post(right, vb::Receive{places.scatter(place)}));

  std::uint64_t sum = 0;
  const auto source = VERBATIM_TRY(domain.register_local(number));
  for (number = 0; number < kMessages; ++number) {
    VERBATIM_TRY(left.send(source.gather(number)));
    const std::size_t next = number % kPlaces;
    VERBATIM_TRY(receiving[next].wait());
    sum += ring[next];  // the program owns it now
    receiving[next] = vb::unsafe::post(right, vb::Receive{places.scatter(ring[next])});
  }
  // [/unsafe]
  return sum;
}

}  // namespace

int main() {
  const auto sum = run();
  if (!sum || *sum != kMessages * (kMessages - 1) / 2) {
    std::fprintf(stderr, "%s\n", sum ? "wrong sum" : vb::explain(sum.error()).c_str());
    return 1;
  }
  std::printf("%llu messages came into %zu places\n", static_cast<unsigned long long>(kMessages),
              kPlaces);
}
