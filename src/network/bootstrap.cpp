// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/network/bootstrap.hpp"

#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "base/environment.hpp"
#include "network/bootstrap_address.hpp"
#include "network/bootstrap_secret.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/network/coordinator.hpp"

namespace verbatim {
namespace {

constexpr const char* kBootstrapOperation = "bootstrap from the environment";
constexpr const char* kRank = "VERBATIM_RANK";
constexpr const char* kWorld = "VERBATIM_WORLD";
constexpr const char* kCoordinator = "VERBATIM_COORDINATOR";
constexpr const char* kSecret = "VERBATIM_SECRET";
constexpr const char* kSecretFile = "VERBATIM_SECRET_FILE";
constexpr const char* kJob = "VERBATIM_JOB";

Error wrong(const char* variable, std::string_view what) noexcept {
  return Error{.code = Errc::invalid_argument, .operation = kBootstrapOperation, .field = variable}
      .with_text(what);
}

Result<std::string_view> required(const char* variable) {
  const char* const value = environment(variable);
  if (value == nullptr) return std::unexpected(wrong(variable, "not set"));
  if (*value == '\0') return std::unexpected(wrong(variable, "empty"));
  return value;
}

Result<Rank> required_number(const char* variable) {
  const std::string_view text = VERBATIM_TRY(required(variable));
  Rank number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size())
    return std::unexpected(wrong(variable, text));
  return number;
}

/// The same error, in terms of the variable that named the file.
Error of_file(Error error) noexcept {
  const bool is_mode = error == Errc::permission_denied && error.value != 0;
  if (error == Errc::malformed) error.code = Errc::invalid_argument;
  error.field = is_mode ? "VERBATIM_SECRET_FILE, its mode" : kSecretFile;
  if (!is_mode) error.value = 0;
  error.limit = 0;
  return error;
}

bool is_nothing_set() noexcept {
  for (const char* variable : {kRank, kWorld, kCoordinator, kSecret, kSecretFile, kJob})
    if (environment(variable) != nullptr) return false;
  return true;
}

}  // namespace

Result<std::optional<Secret>> detail::secret_of_environment(const char* operation) {
  const char* const digits = environment(kSecret);
  const char* const file = environment(kSecretFile);
  const auto refused = [operation](Error error) {
    error.operation = operation;
    return std::unexpected(error);
  };
  if (digits != nullptr && file != nullptr)
    return refused(wrong(kSecret, "and _FILE: one of them"));
  if (file != nullptr) {
    auto secret = Secret::from_file(file);
    if (!secret) return refused(of_file(secret.error()));
    return *std::move(secret);
  }
  if (digits == nullptr) return std::nullopt;
  auto secret = Secret::from_hex(digits);
  // A wrong secret may be almost the right one, so the error does not show it.
  if (!secret) return refused(wrong(kSecret, "not 64 hex digits"));
  return *std::move(secret);
}

Result<Identity> Bootstrap::environment() {
  if (is_nothing_set())
    return std::unexpected(
        Error{.code = Errc::not_found, .operation = kBootstrapOperation, .field = kRank});
  Identity identity;
  identity.rank = VERBATIM_TRY(required_number(kRank));
  identity.world = VERBATIM_TRY(required_number(kWorld));
  if (identity.world == 0) return std::unexpected(wrong(kWorld, "0"));
  if (identity.rank >= identity.world) {
    Error beyond = wrong(kRank, "");
    beyond.value = identity.rank;
    beyond.limit = identity.world - 1;
    return std::unexpected(beyond);
  }
  identity.coordinator = VERBATIM_TRY(required(kCoordinator));
  identity.secret = VERBATIM_TRY(detail::secret_of_environment(kBootstrapOperation));
  if (verbatim::environment(kJob) != nullptr) identity.job = VERBATIM_TRY(required(kJob));
  VERBATIM_TRY(detail::check_coordinators(identity.coordinator, identity.secret.has_value(),
                                          kBootstrapOperation, kCoordinator));
  return identity;
}

Result<std::vector<Identity>> Bootstrap::in_process(Rank world) {
  if (world == 0)
    return std::unexpected(Error{
        .code = Errc::invalid_argument, .operation = "bootstrap in one process", .field = "world"});
  const Secret secret = Secret::random();
  const CoordinatorOptions options{.world = world, .secret = secret};
  const auto hosted = std::make_shared<Coordinator>(VERBATIM_TRY(Coordinator::open(options)));
  std::vector<Identity> ranks(world);
  for (Rank rank = 0; rank < world; ++rank) {
    ranks[rank].rank = rank;
    ranks[rank].world = world;
    ranks[rank].coordinator = hosted->address();
    ranks[rank].secret = secret;
    ranks[rank].hosted = hosted;
  }
  return ranks;
}

Result<Identity> Bootstrap::find(Timeout timeout) {
  auto identity = environment();
  if (identity || identity.error() != Errc::not_found) return identity;
  identity = pmix(timeout);
  if (identity || identity.error() != Errc::not_found) return identity;
  const Error nowhere{.code = Errc::not_found,
                      .operation = "bootstrap",
                      .field =
                          "neither VERBATIM_RANK (set by verbatim run) nor a PMIx server (as "
                          "mpirun and srun have one)"};
  return std::unexpected(nowhere.with_text(identity.error().text_view()));  // A library's name.
}

}  // namespace verbatim
