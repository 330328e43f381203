// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the handles of a protection domain and its memory own.
#include <memory>

#include "verbs/handle.hpp"
#include "verbs/unaddressable.hpp"

namespace verbatim::detail {

struct DomainState {
  Handle<ibv_pd> raw;
};
using DomainPtr = std::shared_ptr<DomainState>;

struct RegionState {
  DomainPtr domain;  // First: outlives the registration.
  Handle<ibv_mr> raw;
  Unaddressable unaddressable{};
};

struct AddressHandleState {
  DomainPtr domain;
  Handle<ibv_ah> raw;
};

/// Memory from the provider, unmapped when destroyed.
struct Allocation {
  Allocation(DomainPtr owner, void* memory, std::size_t size) noexcept
      : domain(std::move(owner)), address(memory), bytes(size) {}
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  DomainPtr domain;
  void* address;
  std::size_t bytes;
};

}  // namespace verbatim::detail
