// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Two queue pairs of the device under test that are connected to each other.
///
/// `local` is the side on which a test acts, `remote` is its peer; they are the same unless the
/// options say otherwise. Each has one completion queue for sends and one for receives.
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "support/require.hpp"
#include "verbatim/verbs/batch.hpp"
#include "verbatim/verbs/completion_queue.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbatim/verbs/queue_pair.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {

using ChangeOptions = std::function<void(QueuePairOptions&)>;

struct PairOptions {
  QueuePairType type = QueuePairType::reliable_connection;
  std::uint32_t completion_depth = 512;
  bool channels = false;  ///< Each completion queue gets a separate channel.
  ChangeOptions both{};   ///< Changes the options of both sides, before the other two.
  ChangeOptions local{};
  ChangeOptions remote{};
};

/// One end of a connection.
struct Side {
  CompletionQueue sends;
  CompletionQueue receives;
  QueuePair queue_pair;

  template <class Work>
  void post(const Work& work, std::uint64_t id, Where where = Where::current()) {
    require(unsafe::post(queue_pair, work, WrId{id}), where);
  }
  template <class Work>
  void post_unsignaled(const Work& work, std::uint64_t id, Where where = Where::current()) {
    require(unsafe::post(queue_pair, work, WrId{id}, unsafe::Signal::none), where);
  }
};

class ConnectedPair {
 public:
  explicit ConnectedPair(const PairOptions& options = {});
  ConnectedPair(const ProtectionDomain& domain, const PairOptions& options);

  Context context;
  ProtectionDomain domain;
  Side local;
  Side remote;

 private:
  ConnectedPair(const ProtectionDomain& domain, std::pair<Side, Side> sides);
};

/// The options with which every queue pair of the suite starts: all rights, and 16 requests per
/// queue.
[[nodiscard]] QueuePairOptions queue_pair_options(const ProtectionDomain& domain,
                                                  const CompletionQueue& sends,
                                                  const CompletionQueue& receives);
/// Timers that outlast any pause of a test, and of the machine. For a peer that lives: one that
/// dies is noticed all the same.
void be_patient(QueuePairOptions& options);

[[nodiscard]] CompletionQueue completion_queue(const Context& context, std::uint32_t depth = 512,
                                               std::optional<CompletionChannel> channel = {});

/// Sends `bytes` random bytes each way and checks every one, which shows that the connection works.
void exchange(ConnectedPair& pair, std::size_t bytes = 3000);

}  // namespace verbatim::test
