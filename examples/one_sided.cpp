// SPDX-License-Identifier: MIT OR Apache-2.0
// One-sided: write to and read from a peer's memory, with type and rights in the C++ type.
#include <verbatim/verbatim.hpp>

#include <array>
#include <cstdio>
#include <cstring>

namespace vb = verbatim;

namespace {

struct Slot {
  std::uint64_t sequence;
  std::array<char, 56> text;
};

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [left, right] = VERBATIM_TRY(vb::connect_pair(domain));

  // [one_sided]
  constexpr auto kRights = vb::Access::remote_read | vb::Access::remote_write;
  auto window = VERBATIM_TRY(domain.allocate_shared(16 * sizeof(Slot), kRights));
  const auto ring = window.remote_span<Slot, kRights>();  // as data: window.remote(), encode()

  Slot out{.sequence = 7, .text = {"written by the peer"}};
  Slot in{};
  const auto out_region = VERBATIM_TRY(domain.register_local(out));
  const auto in_region = VERBATIM_TRY(domain.register_local(in));
  // Bounds are checked here; through a span without remote_read the read would not compile.
  VERBATIM_TRY(left.write(out_region.gather(out), ring[3]));
  VERBATIM_TRY(left.read(in_region.scatter(in), ring[3]));
  // [/one_sided]
  const std::uint64_t sequence = 8;
  const auto word = VERBATIM_TRY(domain.register_read_only(sequence));
  VERBATIM_TRY(left.write(word.gather(sequence), ring[3].field(&Slot::sequence)));
  const auto seen = window.load_acquire<std::uint64_t>(3 * sizeof(Slot));
  std::printf("slot 3 read back: %llu \"%s\"; its sequence now: %llu\n",
              static_cast<unsigned long long>(in.sequence), in.text.data(),
              static_cast<unsigned long long>(seen));
  if (in.sequence == 7 && std::memcmp(&in, &out, sizeof in) == 0 && seen == 8) return {};
  return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
