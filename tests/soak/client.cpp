// SPDX-License-Identifier: MIT OR Apache-2.0
// A client: visits some servers, moves checked data, and leaves: in order, or without a goodbye.
#include <algorithm>

#include "soak/meeting.hpp"
#include "survival/process.hpp"

namespace verbatim::test {
namespace {

constexpr std::uint64_t kMostMessages = 150;

using Visits = std::vector<std::unique_ptr<Meeting>>;

void step_all(const Visits& visits) {
  for (const auto& visit : visits) {
    visit->step();
    if (const auto status = visit->talk.broken())
      give_up("a server's connection broke: " + std::string{to_string(*status)}, Where::current());
  }
  give_way();
}

template <class Condition>
void step_until(const Visits& visits, const char* what, const Condition& condition) {
  const auto is_done = [&] {
    step_all(visits);
    return std::ranges::all_of(visits, [&](const auto& visit) { return condition(*visit); });
  };
  if (!eventually(is_done)) give_up(std::string{"not in time: "} + what, Where::current());
}

}  // namespace

int play_client(const std::vector<std::string>& words) {
  Random random{std::stoull(words.at(1))};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  Hello hello{.seed = random.next(),
              .memory = static_cast<MemoryKind>(random.up_to(1)),
              .shared = static_cast<std::uint8_t>(random.up_to(1)),
              .datagrams = static_cast<std::uint8_t>(random.up_to(1))};
  const std::uint64_t goal = 1 + random.up_to(kMostMessages - 1);
  const bool in_order = random.up_to(1) == 1;
  std::optional<SharedSink> sink;
  if (hello.shared != 0)
    sink.emplace(domain, 2 * Conversation::kReceives, Conversation::kBytes, hello.memory);
  Visits visits;
  for (std::size_t i = 2; i < words.size(); ++i) {
    hello.seed += 10;
    const auto link = connect_to(words[i]);
    link->send(std::as_bytes(std::span{&hello, 1}));
    visits.push_back(std::make_unique<Meeting>(domain, link, hello, sink ? &*sink : nullptr));
  }
  step_until(visits, "first messages", [](Meeting& each) { return each.received() != 0; });
  Control{kControlFd}.say('h');
  step_until(visits, "messages", [&](Meeting& each) { return each.received() >= goal; });
  if (!in_order) return 0;
  for (const auto& visit : visits) visit->talk.stop();
  step_until(visits, "the end of our own", [](Meeting& each) { return each.talk.is_idle(); });
  const std::byte bye{1};
  for (const auto& visit : visits) visit->link->send({&bye, 1});
  step_until(visits, "the server's farewell", [](Meeting& each) { return has_spoken(*each.link); });
  return 0;
}

}  // namespace verbatim::test
