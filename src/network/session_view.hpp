// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a barrier needs from the session: the Exchanger's, or one that a test provides. Not
/// on the straight path.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/network/exchanger.hpp"

namespace verbatim::detail {

class SessionView {
 public:
  /// Increases with each departure. Any thread.
  [[nodiscard]] virtual std::uint32_t changes() const noexcept = 0;
  /// The departures of this generation, in the order in which the coordinator decided.
  [[nodiscard]] virtual std::vector<Departure> departures() const = 0;
  /// Readable while there are departures that were not looked at.
  [[nodiscard]] virtual int fd() const = 0;
  /// A rank seems to be gone: waits for the first departure; `timed_out` if there is none.
  [[nodiscard]] virtual Result<Departure> verdict(Timeout limit) = 0;
  /// What others get from ask().
  virtual void report(std::span<const std::byte> state) = 0;
  [[nodiscard]] virtual Result<std::vector<std::byte>> ask(Rank rank, Timeout limit) = 0;

 protected:
  SessionView() = default;
  SessionView(const SessionView&) = default;
  SessionView& operator=(const SessionView&) = default;
  ~SessionView() = default;
};

class ExchangerView final : public SessionView {
 public:
  explicit ExchangerView(Exchanger& session) noexcept : session_(session) {}
  [[nodiscard]] std::uint32_t changes() const noexcept override { return session_.changes(); }
  [[nodiscard]] std::vector<Departure> departures() const override { return session_.departures(); }
  [[nodiscard]] int fd() const override { return session_.fd(); }
  [[nodiscard]] Result<Departure> verdict(Timeout limit) override {
    return session_.verdict(limit);
  }
  void report(std::span<const std::byte> state) override {
    [[maybe_unused]] const auto reported = session_.report(state);
  }
  [[nodiscard]] Result<std::vector<std::byte>> ask(Rank rank, Timeout limit) override {
    return session_.ask(rank, limit);
  }

 private:
  Exchanger& session_;
};

}  // namespace verbatim::detail
