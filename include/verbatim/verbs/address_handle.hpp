// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where a datagram goes: the path to a port, in the device's form.
///
/// Ownership: move-only; keeps its domain alive. It must outlive the completion of every datagram
///            that uses it.
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "verbatim/base/ids.hpp"
#include "verbatim/verbs/gid.hpp"

namespace verbatim {

namespace detail {
struct Raw;
struct AddressHandleState;
}  // namespace detail

struct AddressOptions {
  std::uint8_t port = 1;
  Lid remote_lid{};
  bool global = false;
  Gid remote_gid{};
  std::uint32_t local_gid_index = 0;
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 64;
};

class AddressHandle {
 public:
  AddressHandle(AddressHandle&&) noexcept;
  AddressHandle& operator=(AddressHandle&&) noexcept;
  ~AddressHandle();

 private:
  friend class ProtectionDomain;
  friend struct detail::Raw;
  explicit AddressHandle(std::unique_ptr<detail::AddressHandleState> state) noexcept;
  ibv_ah* raw_;
  std::unique_ptr<detail::AddressHandleState> state_;
};

}  // namespace verbatim
