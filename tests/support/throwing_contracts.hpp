// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Turns contract violations into exceptions for as long as this object lives.
#include "verbatim/base/check.hpp"

namespace verbatim::test {

class ThrowingContracts {
 public:
  ThrowingContracts()
      : before_(set_contract_handler([](const ContractViolation& violation) { throw violation; })) {
  }
  ~ThrowingContracts() { set_contract_handler(before_); }
  ThrowingContracts(const ThrowingContracts&) = delete;
  ThrowingContracts& operator=(const ThrowingContracts&) = delete;

 private:
  ContractHandler before_;
};

}  // namespace verbatim::test
