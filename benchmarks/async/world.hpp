// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Pairs of channels on the software device, and the echo that all cases do with them. The
/// client sends eight bytes and the server sends them back: two sends and two receives.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbatim/verbatim.hpp"

namespace verbatim::async_bench {

inline constexpr std::uint32_t kDepth = 15;  ///< Of each queue of a channel.

[[noreturn]] void give_up(const Error& error);
template <class T>
T need(Result<T> result) {
  if (!result) give_up(result.error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

struct Pairs {
  std::vector<Channel> servers{};
  std::vector<Channel> clients{};
};
/// Default: each channel has its own completion queue.
struct Sides {
  SharedCompletions servers{};
  SharedCompletions clients{};
};
enum class Receives : std::uint8_t { own, shared };
Pairs make_pairs(const ProtectionDomain& domain, const Sides& on, std::size_t count,
                 Receives receives = Receives::own);
/// With shared receives, has room for everything that the clients of these cases may have in
/// flight.
Reactor make_reactor(const ProtectionDomain& domain, Receives receives, std::size_t pairs);

/// All servers and clients, with what they need for their echoes.
class Echoes {
 public:
  Echoes(const ProtectionDomain& domain, Pairs& pairs, Receives receives = Receives::own);

  /// Servers that send back every message, for ever.
  void serve(Reactor& reactor);
  /// Each of the first `clients` clients asks `rounds` times. Returns when all have their answers.
  void ask(Reactor& reactor, std::size_t clients, long rounds);
  /// The same without a reactor: one thread runs both sides of each echo, pair by pair.
  void block(std::size_t pairs, long rounds);
  /// One echo of a client whose server is in another thread.
  void ask_once(std::size_t client);

 private:
  struct Latch;
  static Task<void> serve_one(Channel& channel, Buffer buffer);
  static Task<void> serve_one_shared(Channel& channel);
  Task<void> ask_one(Latch& latch, std::size_t client, long rounds);
  Task<void> ask_one_shared(Latch& latch, std::size_t client, long rounds);

  Pairs& pairs_;
  Receives receives_;
  Pool pool_;
  struct Memory {
    Buffer question;
    Buffer answer;
    Buffer place;  ///< The server's.
  };
  std::vector<Memory> memory_{};  ///< One for each pair.
};

// The cases, one file each. They print JSON.
int echo(const ProtectionDomain& domain, std::string_view kind, std::size_t channels,
         std::size_t busy, long rounds);
int idle(const ProtectionDomain& domain, std::size_t channels, long seconds);
int memory(const ProtectionDomain& domain, std::string_view kind, std::size_t channels);
int round_trip(const ProtectionDomain& domain, std::string_view kind, std::size_t channels,
               long rounds);

}  // namespace verbatim::async_bench
