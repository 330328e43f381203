// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the two ends say to each other: who they are, the case, "go", "done", "verified".
#include <sys/types.h>
#include <chrono>
#include <cstdint>
#include <string>

#include "measure/case.hpp"
#include "measure/control.hpp"
#include "measure/latency.hpp"
#include "measure/stream.hpp"

namespace verbatim::cli {

/// What came of a case. Filled as far as it went, also where a call throws.
struct Outcome {
  Histogram latency{};  ///< Of exchanges: see is_round_trip().
  Volume volume{};
  bool inlined = false;
};

/// Which of the two figures are wanted.
struct Figures {
  bool latency = true;
  bool bandwidth = true;
};

class Client {
 public:
  /// Greets the server. Throws Failure.
  Client(Control control, Context context, const Manners& manners);

  /// The name of the server's device.
  [[nodiscard]] const std::string& peer_device() const noexcept { return peer_device_; }
  [[nodiscard]] const Context& context() const noexcept { return context_; }
  /// Measures and verifies. Throws Failure and Interrupted.
  void measure(const Case& each, Figures figures, const Effort& effort, const Observer& latency,
               const Observer& stream, Outcome& outcome);

 private:
  template <class Measure, class Verify>
  void run_phase(Side& side, const char* name, Measure&& measure, Verify&& verify);

  Control control_;
  Context context_;
  Manners manners_;
  std::string peer_device_;
};

/// The server's part, until the client goes. Throws Failure, of which the client knows.
void serve(Control& control, const Context& context, const Manners& manners);

/// A server in a process of its own on this machine. It ends with this object, or with us.
class LocalServer {
 public:
  /// Before this process has opened a device. `processor`: -1 for any.
  LocalServer(const std::string& device, int processor, const Manners& manners);
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;
  ~LocalServer();

  /// Once.
  [[nodiscard]] Control take_control() { return Control{std::move(socket_)}; }

 private:
  pid_t process_ = -1;
  verbatim::detail::PrivateDescriptor socket_;
};

/// By name, or the first that works if it is empty.
[[nodiscard]] Context open_for_measuring(const std::string& device);

}  // namespace verbatim::cli
