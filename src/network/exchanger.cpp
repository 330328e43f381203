// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/network/exchanger.hpp"

#include <system_error>
#include <utility>

#include "channel/socket_address.hpp"
#include "network/session.hpp"
#include "network/session_dial.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {
namespace {

constexpr const char* kJoin = "Exchanger::join";

Result<void> check_join(const Identity& identity, const JoinOptions& options) {
  const auto refuse = [](Errc code, const char* field, std::uint64_t value, std::uint64_t limit) {
    return std::unexpected(
        Error{.code = code, .operation = kJoin, .field = field, .value = value, .limit = limit});
  };
  if (identity.world == 0 || identity.world > detail::kMaxWorld)
    return refuse(Errc::invalid_argument, "world", identity.world, detail::kMaxWorld);
  if (identity.rank >= identity.world)
    return refuse(Errc::invalid_argument, "rank", identity.rank, identity.world - 1);
  if (options.record.size() > detail::kMaxRecordBytes)
    return refuse(Errc::limit_exceeded, "record", options.record.size(), detail::kMaxRecordBytes);
  if (options.detect <= std::chrono::nanoseconds::zero())
    return refuse(Errc::invalid_argument, "detect", 0, 0);
  return {};
}

/// Returns the session if it belongs to this process.
Result<detail::Session*> of_this_process(const std::unique_ptr<detail::Session>& session,
                                         const char* operation) {
  check(session != nullptr, "Exchanger: it was moved from");
  if (session->is_forked())
    return std::unexpected(Error{.code = Errc::forked, .operation = operation});
  return session.get();
}

}  // namespace

Result<Exchanger> Exchanger::join(const Identity& identity, const JoinOptions& options) {
  VERBATIM_TRY(check_join(identity, options));
  const auto deadline = detail::deadline_after(options.timeout);
  auto welcomed = VERBATIM_TRY(detail::dial_coordinator(identity, options, deadline));
  try {
    auto session = std::make_unique<detail::Session>(identity, options, std::move(welcomed));
    session->start();
    VERBATIM_TRY(session->wait_for_everybody(deadline));
    return Exchanger{std::move(session)};
  } catch (const std::system_error& refused) {
    return std::unexpected(os_failure(kJoin, refused.code().value()));
  }
}

Exchanger::Exchanger(std::unique_ptr<detail::Session> session) noexcept
    : session_(std::move(session)), changes_(&session_->changes()) {}
Exchanger::Exchanger(Exchanger&&) noexcept = default;
Exchanger& Exchanger::operator=(Exchanger&& other) noexcept {
  Exchanger old{std::move(*this)};
  session_ = std::move(other.session_);
  changes_ = other.changes_;
  return *this;
}

Exchanger::~Exchanger() {
  // The thread belongs to the parent. A child can only forget it.
  if (!session_ || !session_->is_forked()) return;
  [[maybe_unused]] const auto* const forgotten = session_.release();
}

Rank Exchanger::rank() const noexcept { return session_->rank(); }
Rank Exchanger::world() const noexcept { return session_->world(); }
std::uint32_t Exchanger::generation() const noexcept { return session_->generation(); }
std::span<const Member> Exchanger::members() const noexcept { return session_->members(); }
int Exchanger::fd() const noexcept { return session_->fd(); }
std::uint64_t Exchanger::bytes() const noexcept { return session_->bytes(); }

Result<std::vector<std::vector<std::byte>>> Exchanger::exchange(std::span<const std::byte> bytes,
                                                                Timeout limit) {
  return VERBATIM_TRY(of_this_process(session_, "Exchanger::exchange"))->exchange(bytes, limit);
}

Result<std::vector<PeerOffer>> Exchanger::offer(std::span<const std::byte> common,
                                                std::span<const PeerRecord> to, Timeout limit) {
  return VERBATIM_TRY(of_this_process(session_, "Exchanger::offer"))->offer(common, to, limit);
}

Result<void> Exchanger::meet(Timeout limit) {
  return VERBATIM_TRY(of_this_process(session_, "Exchanger::meet"))->meet(limit);
}

std::vector<Departure> Exchanger::departures() const {
  return session_->is_forked() ? std::vector<Departure>{} : session_->departures();
}

void Exchanger::on_departure(std::function<void(const Departure&)> call) {
  if (!session_->is_forked()) session_->on_departure(std::move(call));
}

Result<Departure> Exchanger::verdict(Timeout limit) {
  return VERBATIM_TRY(of_this_process(session_, "Exchanger::verdict"))->verdict(limit);
}

Result<void> Exchanger::report(std::span<const std::byte> state) {
  return VERBATIM_TRY(of_this_process(session_, "Exchanger::report"))->report(state);
}

Result<std::vector<std::byte>> Exchanger::ask(Rank rank, Timeout limit) {
  return VERBATIM_TRY(of_this_process(session_, "Exchanger::ask"))->ask(rank, limit);
}

Result<void> Exchanger::regroup(Timeout limit, std::vector<std::byte> record) {
  return VERBATIM_TRY(of_this_process(session_, "Exchanger::regroup"))
      ->regroup(limit, std::move(record));
}

Result<void> Exchanger::leave(Timeout limit) {
  return VERBATIM_TRY(of_this_process(session_, "Exchanger::leave"))->leave(limit);
}

Error Exchanger::different_size(std::size_t theirs, std::size_t ours) noexcept {
  return {.code = Errc::incompatible,
          .operation = "Exchanger::exchange",
          .field = "size of a rank's record",
          .value = theirs,
          .limit = ours};
}

}  // namespace verbatim
