// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Finding a device and opening it.
///
/// Ownership: a Device keeps the list it came from alive; an open Context keeps its Device alive.
/// Threads:   any.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/provider/provider.hpp"
#include "verbatim/verbs/events.hpp"

namespace verbatim {

class Context;

/// A device's worldwide unique number, in printing order.
struct Guid {
  std::array<std::uint8_t, 8> bytes{};

  [[nodiscard]] static Guid from_value(std::uint64_t value) noexcept;  ///< Host order.
  [[nodiscard]] std::uint64_t value() const noexcept;                  ///< Host order.
  [[nodiscard]] std::uint32_t oui() const noexcept;  ///< The manufacturer: the top 24 bits.
  [[nodiscard]] bool is_reserved() const noexcept;   ///< All zero: the device has none.
  friend bool operator==(const Guid&, const Guid&) noexcept = default;
};

}  // namespace verbatim

/// For unordered containers.
template <>
struct std::hash<verbatim::Guid> {
  [[nodiscard]] std::size_t operator()(const verbatim::Guid& guid) const noexcept {
    return std::hash<std::uint64_t>{}(guid.value());
  }
};

namespace verbatim {

/// As `0c42:a103:0012:3456`, the way ibv_devices prints it.
[[nodiscard]] std::string to_string(const Guid& guid);

struct ContextOptions {
  EventDelivery events = EventDelivery::thread;
  EventHandler on_event{};  ///< Called in addition to marking the objects; may be empty.
};

class Device {
 public:
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] Guid guid() const noexcept;
  [[nodiscard]] Transport transport() const noexcept;
  [[nodiscard]] Result<Context> open(ContextOptions options = {}) const;

 private:
  friend Result<std::vector<Device>> list_devices(const Provider& provider);
  Device(const Provider& provider, std::shared_ptr<ibv_device*> list, ibv_device* raw) noexcept;

  const Provider* provider_;
  std::shared_ptr<ibv_device*> list_;
  ibv_device* raw_;
};

/// The devices of every provider: those of libibverbs first, then the software devices.
[[nodiscard]] Result<std::vector<Device>> list_devices();
[[nodiscard]] Result<std::vector<Device>> list_devices(const Provider& provider);

struct OpenOptions {
  std::string_view name{};  ///< Empty: `VERBATIM_DEVICE`, else the first device that works.
  std::optional<Transport> require{};  ///< Refuse any other transport.
  ContextOptions context{};
};

/// Opens the named device. Without a name it opens the first one with an ACTIVE port and reliable
/// connections. If there is no other, that is the built-in soft0 (`VERBATIM_SOFT=0` hides it). An
/// unknown name is `not_found`, and the error names it.
[[nodiscard]] Result<Context> open_device(OpenOptions options = {});
[[nodiscard]] Result<Context> open_device(std::string_view name);

}  // namespace verbatim
