// SPDX-License-Identifier: MIT OR Apache-2.0
// Code of manual/coming_from/raw_verbs.md: a list of requests with one signal, and raw handles.
#include <verbatim/verbatim.hpp>

#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kPieces = 4;

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  // [connect]
  auto queue = VERBATIM_TRY(context.create_completion_queue({.depth = 256}));
  auto prepared = VERBATIM_TRY(vb::QueuePair::prepare({.domain = domain,
                                                       .send_completions = queue,
                                                       .receive_completions = queue,
                                                       .access = vb::Access::remote_write}));
  const vb::Endpoint peer = prepared.endpoint();  // itself here; usually encode() it, and send it
  auto queue_pair = VERBATIM_TRY(std::move(prepared).connect(peer));  // INIT, RTR and RTS
  // [/connect]

  // [batch]
  std::array<std::uint64_t, kPieces> numbers{1, 2, 3, 4};
  const auto region = VERBATIM_TRY(domain.register_local(numbers));
  const auto window = VERBATIM_TRY(domain.allocate_shared(64, vb::Access::remote_write));
  vb::unsafe::SendBatch<kPieces> batch{queue_pair};  // a list of ibv_send_wr, linked by `next`
  for (std::size_t i = 0; i < kPieces; ++i) {
    const auto target = window.remote().sub_region(i * sizeof numbers[i], sizeof numbers[i]);
    const bool is_last = i + 1 == kPieces;
    VERBATIM_TRY(batch.add(vb::Write{region.gather(numbers[i]), *target}, vb::WrId{i},
                           is_last ? vb::unsafe::Signal::completion : vb::unsafe::Signal::none));
  }
  const auto posted = batch.post();                    // one doorbell
  if (!posted) return std::unexpected(*posted.error);  // the first posted.accepted are on their way
  std::array<vb::Completion, 8> completions;
  const std::size_t count = VERBATIM_TRY(queue.wait(completions, 5s));
  // [/batch]
  if (count != 1 || !completions[0].ok() || window.load_acquire<std::uint64_t>(24) != 4)
    return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});

  // [native]
  const ibv_qp* raw = vb::unsafe::native(queue_pair);  // stays owned by `queue_pair`
  const ibv_mr* raw_region = vb::unsafe::native(region);
  std::printf("queue pair 0x%06x, key 0x%08x\n", raw->qp_num, raw_region->lkey);
  // [/native]
  return {};
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
