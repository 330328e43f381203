// SPDX-License-Identifier: MIT OR Apache-2.0
// A server: serves every client for as long as it lives, and keeps nothing of clients that left.
#include <poll.h>

#include <cstring>

#include "soak/meeting.hpp"
#include "survival/process.hpp"

namespace verbatim::test {
namespace {

/// A client that is here, or has just left.
class Guest {
 public:
  Guest(const ProtectionDomain& domain, const std::shared_ptr<Link>& link, const Hello& hello,
        SharedSink& sink)
      : meeting_(domain, link, hello, hello.shared != 0 ? &sink : nullptr) {}

  /// Returns false once everything of it is over.
  bool step() {
    const std::size_t came = meeting_.step();
    if (!left_ && has_spoken(*meeting_.link))
      meeting_.talk.stop();  // It has said good-bye, and waits.
    if (meeting_.talk.is_idle() && !meeting_.talk.broken() && !answered_) answer();
    if (!left_ && has_gone(*meeting_.link)) left_ = Clock::now();
    if (const auto status = meeting_.talk.broken()) check_end(*status);
    if (!left_) return true;
    // Completions of shared receives must not be lost with their queue.
    const Conversation& talk = meeting_.talk;
    const bool is_over = talk.is_idle() || (talk.broken() && talk.is_drained());
    if (!is_over && Clock::now() - *left_ > kPatience)
      give_up("the connection to a client that went does not break", Where::current());
    return !is_over || came != 0;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void answer() {
    answered_ = true;
    const std::byte bye{1};
    try {
      meeting_.link->send({&bye, 1});
    } catch (const SetupFailed&) {  // It was killed while it waited.
    }
  }

  void check_end(WorkStatus status) {
    if (!left_ && !eventually([&] { return has_gone(*meeting_.link); }))
      give_up("a connection broke, and its client is there: " + std::string{to_string(status)},
              Where::current());
    if (status != WorkStatus::retry_exceeded && status != WorkStatus::flushed)
      give_up("an odd end: " + std::string{to_string(status)}, Where::current());
    if (!left_) left_ = Clock::now();
  }

  Meeting meeting_;
  bool answered_ = false;
  std::optional<Clock::time_point> left_;
};

/// Returns nothing if the client was killed before it was here. Others wait meanwhile.
std::unique_ptr<Guest> welcome(const ProtectionDomain& domain, const std::shared_ptr<Link>& link,
                               SharedSink& sink) {
  try {
    const auto said = link->receive();
    Hello hello{};
    if (said.size() != sizeof hello) give_up("what is this?", Where::current());
    std::memcpy(&hello, said.data(), sizeof hello);
    return std::make_unique<Guest>(domain, link, hello, sink);
  } catch (const SetupFailed&) {
    if (!eventually([&] { return has_gone(*link); })) throw;
    return {};
  }
}

}  // namespace

int play_server(const std::vector<std::string>& words) {
  const Control control{kControlFd};
  const NamedListener listener{words.at(1)};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  SharedSink sink{domain, Conversation::kMostReceives, Conversation::kBytes,
                  words.at(2) == "plain" ? MemoryKind::plain : MemoryKind::buffer};
  std::vector<std::unique_ptr<Guest>> guests;
  control.say('r');
  for (bool is_asked = false;;) {
    while (const auto link = listener.accept())
      if (auto guest = welcome(domain, link, sink)) guests.push_back(std::move(guest));
    std::erase_if(guests, [](const auto& guest) { return !guest->step(); });
    if (const auto word = control.overhear()) {
      if (*word == 'q') return 0;
      is_asked = true;
    }
    if (!guests.empty()) {
      give_way();
      continue;
    }
    if (std::exchange(is_asked, false)) control.say('i');
    pollfd entries[] = {{.fd = listener.fd(), .events = POLLIN, .revents = 0},
                        {.fd = kControlFd, .events = POLLIN, .revents = 0}};
    poll(entries, 2, 1000);
  }
}

}  // namespace verbatim::test
