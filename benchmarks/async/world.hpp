// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Pairs of channels on the software device, and what all cases do with them: an echo. The
/// client sends eight bytes, the server sends them back: two sends and two receives.
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
/// Default: channels with completion queues of their own.
struct Sides {
  SharedCompletions servers{};
  SharedCompletions clients{};
};
enum class Receives : std::uint8_t { own, shared };
Pairs make_pairs(const ProtectionDomain& domain, const Sides& on, std::size_t count,
                 Receives receives = Receives::own);
/// With room for what all clients of these cases may have on the way, if its receives are shared.
Reactor make_reactor(const ProtectionDomain& domain, Receives receives, std::size_t pairs);

/// Each server and each client, with what it needs for its echoes.
class Echoes {
 public:
  Echoes(const ProtectionDomain& domain, Pairs& pairs, Receives receives = Receives::own);

  /// Servers that send back what comes, for ever.
  void serve(Reactor& reactor);
  /// The first `clients` of them ask `rounds` times each. Over when all have their answers.
  void ask(Reactor& reactor, std::size_t clients, long rounds);
  /// The same without a reactor: one thread plays both sides of each echo, pair by pair.
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
    Buffer place;  ///< Of the server.
  };
  std::vector<Memory> memory_{};  ///< Of each pair.
};

// The cases, a file each; what they print is JSON.
int echo(const ProtectionDomain& domain, std::string_view kind, std::size_t channels,
         std::size_t busy, long rounds);
int idle(const ProtectionDomain& domain, std::size_t channels, long seconds);
int memory(const ProtectionDomain& domain, std::string_view kind, std::size_t channels);
int round_trip(const ProtectionDomain& domain, std::string_view kind, std::size_t channels,
               long rounds);

}  // namespace verbatim::async_bench
