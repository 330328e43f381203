// SPDX-License-Identifier: MIT OR Apache-2.0
// The program of manual/tutorial.md: a server that reverses words, and clients that behave well or
// badly. Run `tutorial listen` in one terminal; `tutorial dial hello`, `tutorial wait` or `tutorial
// crash` in another. Without arguments it does all of that by itself.
#include <sys/wait.h>
#include <unistd.h>
#include <verbatim/verbatim.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kMostBytes = 256;

// [open]
vb::Result<vb::ProtectionDomain> open_domain() {
  auto context = VERBATIM_TRY(vb::open_device());  // the first RDMA device, else soft0
  std::printf("device %s\n", std::string{context.device().name()}.c_str());
  return context.allocate_domain();
}
// [/open]

// [answer]
vb::Error answer_until_it_goes(vb::Channel& client, vb::Buffer buffer) {
  for (;;) {
    auto question = client.receive(std::move(buffer)).wait(vb::kForever);
    if (!question.result) return question.result.error();  // peer_closed, peer_lost, ...
    const std::size_t length = question.received().size();
    std::ranges::reverse(question.buffer.bytes().first(length));
    auto answer = client.send(std::move(question.buffer), {.length = length}).wait();
    if (!answer.result) return answer.result.error();
    buffer = std::move(answer.buffer);
  }
}
// [/answer]

// [listen]
vb::Result<void> listen(const std::string& address, int clients) {
  auto domain = VERBATIM_TRY(open_domain());
  auto listener = VERBATIM_TRY(vb::Listener::open(domain, address));
  std::printf("listening at %s\n", listener.address().c_str());
  for (int number = 1; number <= clients; ++number) {
    auto [client, peer, receives] = VERBATIM_TRY(listener.accept(24h));
    const vb::Error end = answer_until_it_goes(client, VERBATIM_TRY(domain.allocate(kMostBytes)));
    std::printf("client %d: %s\n", number, vb::to_string(end).c_str());
    if (end == vb::Errc::peer_closed) VERBATIM_TRY(client.close());
  }
  return {};
}
// [/listen]

// [dial]
vb::Result<void> dial(const std::string& address, std::string_view word) {
  auto domain = VERBATIM_TRY(open_domain());
  auto channel = VERBATIM_TRY(vb::dial(domain, address)).channel;
  auto question = VERBATIM_TRY(domain.allocate(kMostBytes));
  auto receiving = channel.receive(VERBATIM_TRY(domain.allocate(kMostBytes)));  // first a place

  word = word.substr(0, kMostBytes);
  std::memcpy(question.bytes().data(), word.data(), word.size());
  auto sending = channel.send(std::move(question), {.length = word.size()});
  VERBATIM_TRY(sending.wait().result);  // `question` is gone until here

  const auto answer = receiving.wait(2s);
  VERBATIM_TRY(answer.result);
  const auto bytes = answer.received();
  std::printf("%.*s -> %.*s\n", static_cast<int>(word.size()), word.data(),
              static_cast<int>(bytes.size()), reinterpret_cast<const char*>(bytes.data()));
  return channel.close();  // says good-bye, and waits for the server's
}
// [/dial]

// [wait]
vb::Result<void> wait_in_vain(const std::string& address) {
  auto domain = VERBATIM_TRY(open_domain());
  auto channel = VERBATIM_TRY(vb::dial(domain, address)).channel;
  auto late = channel.receive(VERBATIM_TRY(domain.allocate(kMostBytes))).wait(200ms);
  if (late.result) return {};  // not here: the server only answers questions
  std::printf("%s\n", vb::explain(late.result.error()).c_str());
  std::printf("%s\n", vb::to_string(channel).c_str());
  late.buffer.bytes()[0] = std::byte{1};  // ours again: no device can write to it any more
  return {};
}
// [/wait]

// [crash]
vb::Result<void> crash(const std::string& address) {
  auto domain = VERBATIM_TRY(open_domain());
  auto channel = VERBATIM_TRY(vb::dial(domain, address)).channel;
  std::raise(SIGKILL);  // no destructor runs, and nobody says good-bye
  return {};
}
// [/crash]

vb::Result<void> run(std::string_view what, const std::string& address, std::string_view word) {
  if (what == "listen") return listen(address, 1'000'000);
  if (what == "dial") return dial(address, word);
  if (what == "wait") return wait_in_vain(address);
  if (what == "crash") return crash(address);
  std::fprintf(stderr, "usage: tutorial [listen | dial WORD | wait | crash]\n");
  std::exit(2);
}

int report(const vb::Result<void>& outcome) {
  if (outcome) return 0;
  std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
  return 1;
}

/// What the reader of the tutorial does in two terminals.
bool all_by_itself() {
  const std::string address = "unix:@verbatim-tutorial-" + std::to_string(getpid());
  std::fflush(stdout);
  const pid_t server = fork();  // before any device is opened: a device does not cross a fork
  if (server == 0) std::_Exit(report(listen(address, 3)) + std::fflush(stdout));
  int status = 0;
  bool good = true;
  for (const char* what : {"dial", "wait", "crash"}) {
    const pid_t client = fork();
    if (client == 0) std::_Exit(report(run(what, address, "hello")) + std::fflush(stdout));
    const bool ended = waitpid(client, &status, 0) == client;
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    good = good && ended && (std::string_view{what} == "crash" ? killed : status == 0);
  }
  if (!good) kill(server, SIGTERM);  // it may be waiting for clients
  return waitpid(server, &status, 0) == server && status == 0 && good;
}

}  // namespace

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count < 2) return all_by_itself() ? 0 : 1;
  const std::string_view word = count > 2 ? arguments[2] : "hello";
  return report(run(arguments[1], "127.0.0.1:7471", word));
}
