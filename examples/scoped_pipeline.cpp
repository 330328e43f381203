// SPDX-License-Identifier: MIT OR Apache-2.0
// A scope keeps many operations on borrowed memory in flight, and ends only when all are over.
#include <verbatim/verbatim.hpp>

#include <array>
#include <cstdio>
#include <numeric>
#include <vector>

namespace vb = verbatim;

namespace {

constexpr std::size_t kChunks = 400;  // more than the queue holds
constexpr std::size_t kWords = 64;    // per chunk

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [left, right] = VERBATIM_TRY(vb::connect_pair(domain));
  std::vector<std::uint64_t> records(kChunks * kWords);  // ordinary memory, registered in place
  std::iota(records.begin(), records.end(), 0);
  const auto source = VERBATIM_TRY(domain.register_local(records));
  auto window = VERBATIM_TRY(domain.allocate_shared(records.size() * 8, vb::Access::remote_write));
  const auto write_of = [&](std::size_t i) {
    return vb::Write{source.gather(std::span{records}.subspan(i * kWords, kWords)),
                     *window.remote().sub_region(i * kWords * 8, kWords * 8)};
  };

  // [scope]
  const std::array first{write_of(0), write_of(1), write_of(2)};
  const auto outcome = left.scope([&](vb::Scope& scope) -> vb::Result<void> {
    const auto batch = scope.post(first);  // one doorbell
    for (std::size_t i = 3; i < kChunks; ++i)
      scope.post_detached(write_of(i));  // waits for room when the queue is full
    VERBATIM_TRY(scope.wait(batch));
    return {};
  });  // everything posted is over here, whatever happened above
  // [/scope]
  if (!outcome)
    return std::unexpected(outcome.error().closure.value_or(
        vb::Error{.code = vb::Errc::work_failed, .operation = "scope"}));
  for (std::size_t i = 0; i < records.size(); ++i)
    if (window.load_acquire<std::uint64_t>(i * 8) != i)
      return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});
  std::printf("%zu writes of %zu bytes: all verified\n", kChunks, kWords * 8);
  return {};
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
