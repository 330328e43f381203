// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/address_handle.hpp"

#include <cerrno>
#include <new>

#include "soft/control/device.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {

ibv_ah* create_address_handle(ibv_pd* domain, ibv_ah_attr* attributes) noexcept {
  if (attributes->port_num != 1 || !is_usable(*attributes)) {
    errno = EINVAL;
    return nullptr;
  }
  auto* const handle = new (std::nothrow) AddressHandle{};
  if (handle == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  handle->attributes = *attributes;
  handle->raw.context = domain->context;
  handle->raw.pd = domain;
  reinterpret_cast<Domain*>(domain)->users.fetch_add(1);
  return &handle->raw;
}

int destroy_address_handle(ibv_ah* raw) noexcept {
  reinterpret_cast<Domain*>(raw->pd)->users.fetch_sub(1);
  delete reinterpret_cast<AddressHandle*>(raw);
  return 0;
}

}  // namespace verbatim::engine
