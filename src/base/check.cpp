// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/base/check.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace verbatim {
namespace {

void print_violation(const ContractViolation& violation) {
  // The process is about to end, and stderr is the only place left for the reason.
  std::fprintf(stderr, "verbatim: misuse: %s (value %llu, limit %llu)\n  at %s:%u in %s\n",
               violation.what, static_cast<unsigned long long>(violation.value),
               static_cast<unsigned long long>(violation.limit), violation.where.file_name(),
               violation.where.line(), violation.where.function_name());
}

std::atomic<ContractHandler> current_handler{&print_violation};

}  // namespace

ContractHandler set_contract_handler(ContractHandler handler) noexcept {
  return current_handler.exchange(handler != nullptr ? handler : &print_violation);
}

void contract_violated(const char* what, std::uint64_t value, std::uint64_t limit,
                       std::source_location where) {
  current_handler.load()({what, value, limit, where});
  std::abort();
}

}  // namespace verbatim
