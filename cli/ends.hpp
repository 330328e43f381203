// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The two ends of `bench` and `ping`: both here, or one here and one elsewhere.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "measure/interrupt.hpp"
#include "measure/session.hpp"

namespace verbatim::cli {

struct EndOptions {
  std::string host;                   ///< Empty: both ends are here.
  std::optional<std::string> listen;  ///< Be the server, there.
  std::uint16_t port = kDefaultPort;
  bool once = false;  ///< Serve one client only.
  std::string device;
  double timeout_s = 10;
  std::vector<int> processors;  ///< Empty: chosen.
  bool pins = true;
  bool json = false;

  [[nodiscard]] Manners manners() const;
};

/// HOST, --listen, --port, --once, --device, --timeout, --cpus, --no-pin, --json.
void add_end_options(CLI::App& command, EndOptions& options);
/// What does not fit together is a mistake of the command line.
void check_end_options(const EndOptions& options);

/// Serves clients of `bench` and `ping`, until a signal comes. The exit status.
[[nodiscard]] int serve_clients(const EndOptions& options, const char* name);

/// A client, and its server where that is ours.
class Ends {
 public:
  /// Throws Failure.
  explicit Ends(const EndOptions& options);

  [[nodiscard]] Client& client() noexcept { return *client_; }
  /// "soft0, both ends on this machine, processors 0 and 1".
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  /// -1 where it is not pinned, or not here.
  [[nodiscard]] int processor(Role role) const noexcept {
    return role == Role::client ? ours_ : theirs_;
  }

 private:
  int ours_;
  int theirs_;
  std::unique_ptr<LocalServer> server_;  // Before the client: it ends when the client has.
  std::unique_ptr<Client> client_;
  std::string description_;
};

/// Runs `work`; one line on stderr for a Failure. The exit status: that of the signal after Ctrl-C.
template <class Work>
[[nodiscard]] int guarded(const char* name, Work&& work);

/// One line on stderr: "verbatim NAME: why".
void complain(const char* name, const std::string& why);

template <class Work>
int guarded(const char* name, Work&& work) {
  try {
    return work();
  } catch (const Interrupted&) {
    return interrupt_status();  // Nothing was measured yet.
  } catch (const Failure& why) {
    complain(name, why.what());
    return kBad;
  }
}

}  // namespace verbatim::cli
