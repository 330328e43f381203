// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/network/coordinator.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "channel/socket_address.hpp"
#include "channel/tcp.hpp"
#include "network/coordinator_loop.hpp"
#include "network/loopback.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {
namespace {

constexpr const char* kCoordinatorOperation = "Coordinator::open";
constexpr int kBacklog = 4096;

Result<void> check_options(const CoordinatorOptions& options) {
  const auto refuse = [](const char* field, std::uint64_t value, std::uint64_t limit) {
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = kCoordinatorOperation,
                                 .field = field,
                                 .value = value,
                                 .limit = limit});
  };
  if (options.world == 0 || options.world > detail::kMaxWorld)
    return refuse("world", options.world, detail::kMaxWorld);
  if (options.detect <= std::chrono::nanoseconds::zero()) return refuse("detect", 0, 0);
  if (options.handshake_timeout <= std::chrono::nanoseconds::zero())
    return refuse("handshake_timeout", 0, 0);
  return {};
}

}  // namespace

Result<Coordinator> Coordinator::open(const CoordinatorOptions& options) {
  VERBATIM_TRY(check_options(options));
  const detail::BoundedCall call{kCoordinatorOperation,
                                 detail::deadline_after(std::chrono::seconds{10})};
  const auto where = VERBATIM_TRY(detail::parse_host_port(options.listen, kCoordinatorOperation));
  const auto addresses = VERBATIM_TRY(detail::resolve_local(where, call));
  if (!options.secret && !std::ranges::all_of(addresses, detail::is_loopback))
    return std::unexpected(Error{
        .code = Errc::permission_denied, .operation = kCoordinatorOperation, .field = "secret"}
                               .with_text(options.listen));
  auto listener = VERBATIM_TRY(detail::listen_on_any(addresses, kBacklog, call));
  const auto local = VERBATIM_TRY(detail::local_address(listener.get(), kCoordinatorOperation));
  try {
    auto loop = std::make_unique<detail::CoordinatorLoop>(options, std::move(listener),
                                                          to_string(local), local.port());
    loop->start();
    return Coordinator{std::move(loop)};
  } catch (const std::system_error& refused) {
    return std::unexpected(os_failure(kCoordinatorOperation, refused.code().value()));
  }
}

Coordinator::Coordinator(std::unique_ptr<detail::CoordinatorLoop> loop) noexcept
    : loop_(std::move(loop)) {}
Coordinator::Coordinator(Coordinator&&) noexcept = default;
Coordinator& Coordinator::operator=(Coordinator&& other) noexcept {
  Coordinator old{std::exchange(loop_, std::move(other.loop_))};
  return *this;
}

Coordinator::~Coordinator() {
  // The thread belongs to the parent. A child can only forget it.
  if (!loop_ || !loop_->is_forked()) return;
  [[maybe_unused]] const auto* const forgotten = loop_.release();
}

const std::string& Coordinator::address() const noexcept { return loop_->address(); }
std::uint16_t Coordinator::port() const noexcept { return loop_->port(); }
void Coordinator::rank_ended(Rank rank) { loop_->rank_ended(rank); }

}  // namespace verbatim
