// SPDX-License-Identifier: MIT OR Apache-2.0
// Code of manual/guide/base.md and manual/guide/provider.md: errors as values, the log, contracts,
// and a fault that the software device injects on request.
#include <verbatim/verbatim.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

vb::Error wrong() { return {.code = vb::Errc::malformed, .operation = "verify"}; }

// [react]
/// A channel to the first of two servers that answers.
vb::Result<vb::Channel> dial_one_of(const vb::ProtectionDomain& domain, const char* first,
                                    const char* second) {
  const vb::DialOptions options{.deadline = 200ms};
  auto connection = vb::dial(domain, first, options);
  if (connection == vb::Errc::timed_out) connection = vb::dial(domain, second, options);
  if (!connection) return std::unexpected(connection.error());  // our caller decides
  return std::move(connection->channel);
}
// [/react]

// [log]
void to_stderr(vb::LogLevel level, std::string_view message) noexcept {
  if (level >= vb::LogLevel::warning)
    std::fprintf(stderr, "verbatim: %.*s\n", static_cast<int>(message.size()), message.data());
}
// [/log]

// [contract]
/// For tests: turns a contract violation into an exception, instead of ending the process.
[[noreturn]] void throw_it(const vb::ContractViolation& violation) {
  throw std::logic_error(violation.what);
}

bool finds_bad_bounds(const vb::Buffer& buffer) {
  const auto before = vb::set_contract_handler(throw_it);
  bool found = false;
  try {
    static_cast<void>(buffer.gather(0, buffer.size() + 1));  // beyond the end
  } catch (const std::logic_error&) {
    found = true;
  }
  vb::set_contract_handler(before);
  return found;
}
// [/contract]

// [fault]
/// Shows whether a program copes with a peer that does not answer. soft0 can simulate this.
vb::Result<vb::Error> send_into_the_void() {
  auto context = VERBATIM_TRY(vb::open_device("soft0"));
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [left, right] = VERBATIM_TRY(vb::connect_pair(domain));
  vb::soft::set_behaviour(
      {.faults = vb::soft::FaultPlan{}.fail(1, vb::WorkStatus::retry_exceeded)});
  auto failed = left.send(VERBATIM_TRY(domain.allocate(8))).wait();
  vb::soft::set_behaviour({});
  if (failed.result) return std::unexpected(wrong());
  return failed.result.error();  // work_failed; status_of() it is retry_exceeded
}
// [/fault]

vb::Result<void> run() {
  vb::set_log_sink(to_stderr);
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  const auto refused =
      dial_one_of(domain, "unix:@verbatim-nobody-is-here", "unix:@verbatim-nor-here");
  if (refused || !finds_bad_bounds(VERBATIM_TRY(domain.allocate(8))))
    return std::unexpected(wrong());
  const vb::Error error = VERBATIM_TRY(send_into_the_void());
  std::printf("%s\n", vb::explain(error).c_str());
  if (vb::status_of(error) == vb::WorkStatus::retry_exceeded) return {};
  return std::unexpected(wrong());
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
