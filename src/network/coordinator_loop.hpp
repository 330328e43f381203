// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The coordinator's thread: accepts clients, times them out, keeps strangers away from the
/// ranks.
///
/// Strangers are clients that are not authenticated. They have handshake_timeout in total, and if
/// there are too many the oldest is dropped. A client that knows the secret thus never waits for
/// those that do not.
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "channel/private_descriptor.hpp"
#include "network/connection.hpp"
#include "network/membership.hpp"
#include "network/process_bound.hpp"
#include "verbatim/network/coordinator.hpp"

namespace verbatim::detail {

class CoordinatorLoop final : Connection::Owner, MembershipOutput {
 public:
  using Clock = std::chrono::steady_clock;
  CoordinatorLoop(const CoordinatorOptions& options, PrivateDescriptor listener,
                  std::string address, std::uint16_t port);
  /// Ends the thread; gives clients that got a farewell a second to go.
  ~CoordinatorLoop();
  CoordinatorLoop(const CoordinatorLoop&) = delete;
  CoordinatorLoop& operator=(const CoordinatorLoop&) = delete;

  /// May throw what std::thread throws.
  void start();
  /// Any thread.
  void rank_ended(Rank rank);
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] bool is_forked() const noexcept { return process_.is_forked(); }

 private:
  struct Client {
    std::shared_ptr<Connection> connection;
    std::string address;
    Clock::time_point since;
    bool closing = false;  ///< Everything was sent; it is about to close.
  };
  using Clients = std::map<ClientId, Client>;

  void received(Connection& connection, std::span<const std::byte> plaintext) override;
  void ended(Connection& connection, const Error& why) override;
  void send(ClientId client, Bytes plaintext) override;
  void close(ClientId client) override;
  void call_soon() override;

  void await_clients();
  void accept_clients();
  [[nodiscard]] bool make_room();
  void admit(PrivateDescriptor socket);
  void first_frame(Connection& connection, std::span<const std::byte> plaintext);
  void await_tick();
  void tick();
  void drop(Clients::iterator client, Departed why);
  void forget(ClientId client);
  void stop();
  void refuse_clients();
  void end_if_stopped();

  ProcessBound process_;
  CoordinatorOptions options_;
  std::string address_;
  std::uint16_t port_;
  SecureStream::Key key_{};
  JobId job_;
  asio::io_context loop_{1};
  PrivateDescriptor listener_;
  asio::posix::stream_descriptor watched_;
  asio::steady_timer ticks_{loop_};
  asio::steady_timer soon_{loop_};
  Clock::duration interval_;
  Clock::time_point last_tick_ = Clock::now();
  Clock::time_point stop_by_ = Clock::time_point::max();
  ClientId next_id_ = 1;
  Clients clients_{};
  std::set<ClientId> strangers_{};  ///< The oldest first.
  Membership membership_;
  bool paused_ = false;  ///< No descriptors are left for more clients.
  bool ended_ = false;
  std::thread thread_{};
};

}  // namespace verbatim::detail
