// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Programming errors end here: a message with the values, then the contract handler.
///
/// Never use this for input. What comes from a peer, a file, the environment or the device is an
/// Error.
#include <cstdint>
#include <source_location>

#include "verbatim/base/annotations.hpp"

namespace verbatim {

/// A violated contract. The strings have static storage.
struct ContractViolation {
  const char* what;
  std::uint64_t value;
  std::uint64_t limit;
  std::source_location where;
};

/// The library calls it once per violation; if it returns, the process aborts. The default handler
/// prints one line. A handler that throws turns the violation into an exception, as the tests do.
using ContractHandler = void (*)(const ContractViolation&);

/// Replaces the handler and returns the old one. nullptr restores the default. Any thread.
ContractHandler set_contract_handler(ContractHandler handler) noexcept;

[[noreturn]] VERBATIM_COLD void contract_violated(const char* what, std::uint64_t value,
                                                  std::uint64_t limit, std::source_location where);

/// Always on. `what` states the condition that must hold.
inline void check(bool holds, const char* what,
                  std::source_location where = std::source_location::current()) {
  if (!holds) [[unlikely]]
    contract_violated(what, 0, 0, where);
}

}  // namespace verbatim
