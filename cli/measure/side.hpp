// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One end of a measurement: its queue pairs, its memory, its peer.
///
/// Ownership: has all that it made; borrows the control connection. Threads: one.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "measure/case.hpp"
#include "measure/failure.hpp"
#include "measure/watch.hpp"
#include "verbatim/verbatim.hpp"

namespace verbatim::cli {

enum class Role : std::uint8_t { client, server };  ///< The client measures; the server answers.
[[nodiscard]] constexpr Role other(Role role) noexcept {
  return role == Role::client ? Role::server : Role::client;
}

/// Where a message is: in which slot of which queue pair.
struct Place {
  std::uint32_t queue_pair = 0;
  std::uint32_t slot = 0;
  [[nodiscard]] WrId id() const noexcept { return WrId{(std::uint64_t{queue_pair} << 32) | slot}; }
  [[nodiscard]] static Place of(const Completion& done) noexcept {
    const auto id = std::to_underlying(done.id());
    return {static_cast<std::uint32_t>(id >> 32), static_cast<std::uint32_t>(id)};
  }
};

/// What both ends do as the program's user wants.
struct Manners {
  std::chrono::nanoseconds patience = std::chrono::seconds{10};
  bool yields = false;  ///< See Watch.
};

class Side {
 public:
  static constexpr std::size_t kMostTaken = 32;

  /// Makes queue pairs and memory, and posts the receives.
  Side(Role role, const Case& each, const Context& context, Control& control,
       const Manners& manners);
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() = default;

  /// For the peer: one of each queue pair, and the memory.
  [[nodiscard]] std::vector<std::string> endpoints() const;
  [[nodiscard]] std::string memory() const { return to_json(target_.remote()); }
  /// With what the peer has said. Throws Failure for nonsense.
  void connect(const std::vector<std::string>& endpoints);
  void reach(const std::string& memory);

  /// Fills the source with our pattern, and what is to be filled with something else.
  void begin_phase();

  [[nodiscard]] Role role() const noexcept { return role_; }
  [[nodiscard]] const Case& what() const noexcept { return case_; }
  [[nodiscard]] std::uint64_t slots() const noexcept { return slots_; }  ///< See Case::slots().
  [[nodiscard]] bool is_inlined() const noexcept { return inlined_; }
  [[nodiscard]] QueuePair& queue_pair(std::uint32_t number) { return queue_pairs_[number]; }
  [[nodiscard]] CompletionQueue& sends() noexcept { return sends_; }
  [[nodiscard]] CompletionQueue& receives() noexcept { return receives_; }
  [[nodiscard]] SharedRegion& target() noexcept { return target_; }
  [[nodiscard]] Control& control() noexcept { return control_; }
  [[nodiscard]] Watch& watch() noexcept { return watch_; }
  [[nodiscard]] const Manners& manners() const noexcept { return manners_; }
  [[nodiscard]] std::uint32_t receive_depth() const noexcept { return receive_depth_; }

  [[nodiscard]] std::size_t offset_of(Place place) const noexcept {
    return (place.queue_pair * slots_ + place.slot) * case_.pitch();
  }
  [[nodiscard]] std::span<std::byte> source(Place place);  ///< The message that is sent from there.
  [[nodiscard]] std::span<std::byte> landing(Place place);  ///< The message that has come there.
  [[nodiscard]] RemoteMemoryRegion remote(Place place) const;
  [[nodiscard]] GatherElement gather(Place place) { return region().gather(source(place)); }
  [[nodiscard]] ScatterElement scatter(Place place) { return region().scatter(source(place)); }
  /// A word beside the messages: the receiver writes there how many it has had.
  [[nodiscard]] std::size_t credit_offset(std::uint32_t queue_pair) const noexcept {
    return case_.memory() + std::size_t{kCreditBytes} * queue_pair;
  }
  [[nodiscard]] std::span<std::byte> credit_source(std::uint32_t queue_pair);
  [[nodiscard]] RemoteMemoryRegion credit_remote(std::uint32_t queue_pair) const;
  [[nodiscard]] const MemoryRegion& region() const { return source_.region(); }

  void post_receive(Place place) { post_receives({&place, 1}); }
  /// With one doorbell for those of one queue pair that follow each other. At most kMostTaken.
  void post_receives(std::span<const Place> places);
  /// Waits for completions of requests of our own, which must be successes.
  void finish(CompletionQueue& queue, std::size_t count);
  /// The next messages, at least one; none if the peer has said something on the control connection
  /// instead. The places are those of this object, until the next call.
  [[nodiscard]] std::span<const Place> next_messages(std::size_t most = kMostTaken);
  /// Whether message `number` arrives there before the peer says something.
  [[nodiscard]] bool arrives(Place place, std::uint64_t number);
  /// For the client, whose peer says nothing in the middle of a measurement unless it failed.
  [[noreturn]] void complain();

  /// Throws Failure unless the bytes, from the start of a message on, are the pattern of `writer`
  /// for this place.
  void verify(std::span<const std::byte> bytes, Role writer, Place place) const;

 private:
  /// next_messages() of a case that sleeps; 0 for none.
  std::size_t sleep_for(std::span<Completion> room);

  static constexpr std::size_t kCreditBytes = 64;
  /// Not at the same place in a page as the target: processors compare only the low bits of
  /// addresses at first, and take a load of one for a load of what was just stored to the other.
  static constexpr std::size_t kSkew = 512;

  Role role_;
  Case case_;
  std::uint64_t slots_;
  Control& control_;
  Manners manners_;
  Watch watch_;
  std::uint32_t receive_depth_;
  ProtectionDomain domain_;
  CompletionQueue sends_;
  CompletionQueue receives_;
  Buffer source_;
  SharedRegion target_;
  std::vector<PreparedQueuePair> prepared_;
  std::vector<QueuePair> queue_pairs_;
  RemoteMemoryRegion remote_{};
  bool inlined_ = false;
  std::array<Place, kMostTaken> taken_{};
};

/// The end of a message, which counts: see Case::count_bytes().
void put_count(std::span<std::byte> message, std::uint64_t number) noexcept;
[[nodiscard]] std::uint64_t count_in(std::span<const std::byte> message) noexcept;

}  // namespace verbatim::cli
