// SPDX-License-Identifier: MIT OR Apache-2.0
#include "doctor_listen.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "channel/socket_address.hpp"
#include "channel/tcp.hpp"
#include "command_line.hpp"
#include "verbatim/base/explain.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"

namespace verbatim::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kOperation = "doctor --listen";
/// At once; a client that comes when all places are taken is refused.
constexpr std::size_t kMostClients = 16;

/// Lines of several threads, each whole and at once.
class Reporter {
 public:
  explicit Reporter(bool json) noexcept : json_(json) {}
  void say(const Json& event, const std::string& text) {
    const std::scoped_lock lock{mutex_};
    const std::string line =
        json_ ? event.dump(-1, ' ', false, Json::error_handler_t::replace) : text;
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

 private:
  bool json_;
  std::mutex mutex_{};
};

/// Each client has a thread: one that is silent keeps nobody else waiting.
class Surgery {
 public:
  Surgery(const DoctorListenOptions& options, Reporter& reporter)
      : options_(options), reporter_(reporter), ours_(usable_candidates(report_devices())) {}
  Surgery(const Surgery&) = delete;
  Surgery& operator=(const Surgery&) = delete;
  /// Waits for no client: those that are still there are disconnected.
  ~Surgery() {
    for (Patient& each : patients_)
      if (!each.is_gone) shutdown(each.fd, SHUT_RDWR);
  }

  void admit(detail::PrivateDescriptor client) {
    patients_.remove_if([](const Patient& each) { return each.is_gone.load(); });
    const auto address = detail::peer_address(client.get(), kOperation);
    const std::string name = address ? to_string(*address) : "a client";
    if (patients_.size() >= kMostClients) {
      reporter_.say({{"event", "refused"}, {"client", name}}, name + ": too many at once");
      return;
    }
    Patient& patient = patients_.emplace_back();
    // The thread owns the socket; ours is a second descriptor, which is valid as long as we need
    // it.
    patient.fd = fcntl(client.get(), F_DUPFD_CLOEXEC, 0);
    patient.thread = std::jthread{[this, &patient, name, socket = std::move(client)]() mutable {
      treat(std::move(socket), name);
      patient.is_gone = true;
    }};
  }
  [[nodiscard]] std::uint32_t treated() const noexcept { return treated_; }
  [[nodiscard]] std::size_t addresses() const noexcept { return ours_.size(); }

 private:
  struct Patient {
    std::atomic<bool> is_gone{false};
    int fd = -1;
    std::jthread thread{};  ///< Last: it ends before what it uses does.
    ~Patient() {
      if (thread.joinable()) thread.join();
      if (fd >= 0) ::close(fd);
    }
  };

  void treat(detail::PrivateDescriptor socket, const std::string& name) {
    const auto served = serve(std::move(socket), ours_, options_.reach);
    if (served) {
      reporter_.say({{"event", "served"},
                     {"client", name},
                     {"tested", served->tested},
                     {"worked", served->worked}},
                    fmt::format("{}: {} of {} pairs work", name, served->worked, served->tested));
      ++treated_;
    } else {
      reporter_.say({{"event", "dropped"}, {"client", name}, {"error", to_string(served.error())}},
                    fmt::format("{}: dropped: {}", name, to_string(served.error())));
    }
  }

  const DoctorListenOptions& options_;
  Reporter& reporter_;
  const std::vector<Candidate> ours_;
  std::atomic<std::uint32_t> treated_{0};
  std::list<Patient> patients_{};
};

/// Readable when the user wants the end. Threads that start later inherit the mask.
detail::FileDescriptor end_requests() {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGINT);
  sigaddset(&wanted, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  return detail::FileDescriptor{signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK)};
}

Result<void> run(const DoctorListenOptions& options) {
  const auto stop = end_requests();
  const detail::BoundedCall call{kOperation, detail::deadline_after(options.reach.connect_timeout)};
  const auto addresses =
      VERBATIM_TRY(detail::resolve_local({.host = options.address, .port = options.port}, call));
  const auto listener = VERBATIM_TRY(detail::listen_on_any(addresses, 64, call));
  const auto where = VERBATIM_TRY(detail::local_address(listener.get(), kOperation));
  Reporter reporter{options.json};
  Surgery surgery{options, reporter};
  reporter.say(
      {{"event", "listening"}, {"address", to_string(where)}, {"candidates", surgery.addresses()}},
      fmt::format("listening at {}; RDMA addresses to be reached at: {}", to_string(where),
                  surgery.addresses()));
  while (options.clients == 0 || surgery.treated() < options.clients) {
    pollfd both[] = {{.fd = stop.get(), .events = POLLIN, .revents = 0},
                     {.fd = listener.get(), .events = POLLIN, .revents = 0}};
    // With a bound, because a thread that has served the last client wakes nobody.
    if (poll(both, 2, 100) < 0 && errno != EINTR) return std::unexpected(os_failure("poll", errno));
    if (both[0].revents != 0) return {};
    if (both[1].revents == 0) continue;
    auto client = VERBATIM_TRY(detail::try_accept(listener.get(), kOperation));
    if (client) surgery.admit(*std::move(client));
  }
  return {};
}

}  // namespace

int listen_and_serve(const DoctorListenOptions& options) {
  const auto ended = run(options);
  if (ended) return kGood;
  fmt::print(stderr, "verbatim doctor: {}\n", explain(ended.error()));
  return kBad;
}

}  // namespace verbatim::cli
