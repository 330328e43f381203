// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/device.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/environment.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/provider/soft.hpp"
#include "verbatim/provider/system.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbs/context_state.hpp"

namespace verbatim {

Guid Guid::from_value(std::uint64_t value) noexcept {
  Guid guid;
  for (auto byte = guid.bytes.rbegin(); byte != guid.bytes.rend(); ++byte, value >>= 8)
    *byte = static_cast<std::uint8_t>(value);
  return guid;
}

std::uint64_t Guid::value() const noexcept {
  std::uint64_t value = 0;
  for (const std::uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

std::uint32_t Guid::oui() const noexcept { return static_cast<std::uint32_t>(value() >> 40); }

bool Guid::is_reserved() const noexcept { return value() == 0; }

std::string to_string(const Guid& guid) {
  std::array<char, 20> text{};
  const auto& b = guid.bytes;
  std::snprintf(text.data(), text.size(), "%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2],
                b[3], b[4], b[5], b[6], b[7]);
  return text.data();
}

Device::Device(const Provider& provider, std::shared_ptr<ibv_device*> list,
               ibv_device* raw) noexcept
    : provider_(&provider), list_(std::move(list)), raw_(raw) {}

std::string_view Device::name() const noexcept {
  return {raw_->name, strnlen(raw_->name, sizeof raw_->name)};
}

Guid Device::guid() const noexcept {
  // The verb returns the number in network order, which is the order in which the bytes are
  // printed.
  return {.bytes = std::bit_cast<std::array<std::uint8_t, 8>>(provider_->get_device_guid(raw_))};
}

Transport Device::transport() const noexcept { return provider_->transport(raw_); }

Result<Context> Device::open(ContextOptions options) const {
  return detail::ContextState::open(*provider_, *this, raw_, std::move(options));
}

Result<std::vector<Device>> list_devices(const Provider& provider) {
  int count = 0;
  errno = 0;
  ibv_device** const raw = provider.get_device_list(&count);
  if (raw == nullptr) {
    // No list and no errno means that there is no RDMA on this machine, which is not an error.
    // ENOSYS means the same: the kernel has no RDMA module loaded.
    if (errno == 0 || errno == ENOSYS) return {};
    return std::unexpected(os_failure("ibv_get_device_list", errno));
  }
  const std::shared_ptr<ibv_device*> list{raw, provider.free_device_list};
  std::vector<Device> devices;
  devices.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) devices.push_back(Device{provider, list, raw[i]});
  return devices;
}

Result<std::vector<Device>> list_devices() {
  auto devices = VERBATIM_TRY(list_devices(system_provider()));
  auto soft = VERBATIM_TRY(list_devices(soft_provider()));
  devices.insert(devices.end(), soft.begin(), soft.end());
  return devices;
}

namespace {

Error no_device(std::string_view name) {
  if (const char* const reason = system_provider().unavailable(); reason != nullptr)
    return Error{.code = Errc::not_found, .operation = "dlopen", .field = reason}.with_text(name);
  return Error{.code = Errc::not_found, .operation = "open_device"}.with_text(
      name.empty() ? "any RDMA device" : name);
}

Result<Context> open_first_working(const std::vector<Device>& devices, const OpenOptions& options) {
  Error why = no_device({});
  for (const Device& device : devices) {
    if (options.require && device.transport() != *options.require) continue;
    auto context = device.open(options.context);
    if (!context) {
      why = context.error();
      continue;
    }
    if (!context->capabilities().reliable_connection) continue;
    if (auto port = context->first_active_port(); !port) {
      why = port.error();
      continue;
    }
    return context;
  }
  return std::unexpected(why);
}

}  // namespace

Result<Context> open_device(OpenOptions options) {
  if (options.name.empty()) {
    if (const char* const named = environment("VERBATIM_DEVICE")) options.name = named;
  }
  const auto devices = VERBATIM_TRY(list_devices());
  if (options.name.empty()) return open_first_working(devices, options);
  const auto found = std::ranges::find(devices, options.name, &Device::name);
  if (found == devices.end()) return std::unexpected(no_device(options.name));
  if (options.require && found->transport() != *options.require)
    return std::unexpected(Error{.code = Errc::unsupported,
                                 .operation = "open_device",
                                 .field = "transport",
                                 .value = std::to_underlying(found->transport()),
                                 .limit = std::to_underlying(*options.require)}
                               .with_text(options.name));
  return found->open(std::move(options.context));
}

Result<Context> open_device(std::string_view name) {
  return open_device(OpenOptions{.name = name});
}

}  // namespace verbatim
