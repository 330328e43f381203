// SPDX-License-Identifier: MIT OR Apache-2.0
// Two processes open a device, connect, and move verified data both ways.
//
// They exchange endpoints over a socket, as two machines would over TCP. Each side then writes a
// pattern into the other's memory, notifies it with an immediate, and checks what it received.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <verbatim/verbatim.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <vector>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

enum class Role : std::uint8_t { left = 1, right = 2 };
constexpr std::size_t kBytes = 1 << 20;

vb::Error socket_error(const char* operation) { return vb::os_failure(operation, errno); }

/// Sends our record and returns the peer's. Each record is small enough for one message.
vb::Result<std::vector<std::byte>> trade(int socket, std::span<const std::byte> mine) {
  if (send(socket, mine.data(), mine.size(), 0) < 0) return std::unexpected(socket_error("send"));
  std::vector<std::byte> theirs(1024);
  const ssize_t size = recv(socket, theirs.data(), theirs.size(), 0);
  if (size <= 0) return std::unexpected(socket_error("recv"));
  theirs.resize(static_cast<std::size_t>(size));
  return theirs;
}

std::byte pattern(Role writer, std::size_t size, std::size_t i) {
  return static_cast<std::byte>(i * 31 + size + static_cast<std::size_t>(writer) * 101);
}

struct Side {
  Role role;
  vb::CompletionQueue queue;
  vb::Buffer source;
  vb::SharedRegion target;  ///< The peer writes here.
  vb::QueuePair queue_pair;
  vb::RemoteMemoryRegion remote;

  /// Takes the next completion, which must be a success.
  vb::Result<void> next() {
    std::array<vb::Completion, 1> one;
    if (VERBATIM_TRY(queue.wait(one, 10s)) == 1 && one[0].ok()) return {};
    std::fprintf(stderr, "%s\n", vb::to_string(one[0].error()).c_str());
    return std::unexpected(vb::Error{.code = vb::Errc::driver, .operation = "two_processes"});
  }

  /// Writes `size` bytes to the peer, and waits until the peer has written as many to this side.
  vb::Result<void> swap(std::size_t size) {
    VERBATIM_TRY(vb::unsafe::post(queue_pair, vb::Receive{}, vb::WrId{1}));
    const auto write = vb::Write{source.gather(0, size),
                                 *remote.sub_region(0, size),
                                 {.immediate = static_cast<std::uint32_t>(size)}};
    VERBATIM_TRY(vb::unsafe::post(queue_pair, write, vb::WrId{2}));
    VERBATIM_TRY(next());
    VERBATIM_TRY(next());
    return {};
  }
  void fill(std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) source.bytes()[i] = pattern(role, size, i);
  }
  vb::Result<void> verify(std::size_t size) {
    const Role writer = role == Role::left ? Role::right : Role::left;
    for (std::size_t i = 0; i < size; ++i)
      if (target.quiescent_bytes()[i] != pattern(writer, size, i))
        return std::unexpected(vb::Error{.code = vb::Errc::malformed,
                                         .operation = "verify",
                                         .field = "byte",
                                         .value = i,
                                         .limit = size});
    return {};
  }
};

vb::Result<Side> set_up(Role role, int socket) {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto channel = VERBATIM_TRY(context.create_completion_channel());
  auto queue = VERBATIM_TRY(context.create_completion_queue({.depth = 256, .channel = channel}));
  auto target = VERBATIM_TRY(domain.allocate_shared(kBytes, vb::Access::remote_write));
  auto prepared = VERBATIM_TRY(vb::QueuePair::prepare({.domain = domain,
                                                       .send_completions = queue,
                                                       .receive_completions = queue,
                                                       .access = vb::Access::remote_write}));
  const auto their_endpoint = VERBATIM_TRY(trade(socket, vb::encode(prepared.endpoint())));
  const auto peer = VERBATIM_TRY(vb::decode_endpoint(their_endpoint));
  auto queue_pair = VERBATIM_TRY(std::move(prepared).connect(peer));
  // The second exchange also means "I am ready", so nobody writes before both are connected.
  const auto their_memory = VERBATIM_TRY(trade(socket, vb::encode(target.remote())));
  const auto remote = VERBATIM_TRY(vb::decode_remote_memory(their_memory));
  if (role == Role::left)
    std::printf("device %s: connected to queue pair %u of the other process, mtu %u\n",
                std::string{context.name()}.c_str(),
                static_cast<unsigned>(queue_pair.agreement().remote_queue_pair),
                vb::byte_count(queue_pair.agreement().mtu));
  auto source = VERBATIM_TRY(domain.allocate(kBytes));
  return Side{role, queue, std::move(source), std::move(target), std::move(queue_pair), remote};
}

vb::Result<void> run(Role role, int socket) {
  Side side = VERBATIM_TRY(set_up(role, socket));
  for (const std::size_t size : {8uz, 4096uz, 65536uz, kBytes}) {
    side.fill(size);
    VERBATIM_TRY(side.swap(size));
    VERBATIM_TRY(side.verify(size));
    if (role == Role::left) std::printf("%10zu bytes each way: verified\n", size);
    // Do not overwrite what the other side has not checked yet.
    const std::array<std::byte, 1> checked{};
    static_cast<void>(VERBATIM_TRY(trade(socket, checked)));
  }
  return {};
}

int report(Role role, const vb::Result<void>& outcome) {
  if (outcome) return 0;
  std::fprintf(stderr, "%s: %s\n", role == Role::left ? "left" : "right",
               vb::explain(outcome.error()).c_str());
  return 1;
}

}  // namespace

int main() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) return 1;
  // Before any device is opened: an open device does not survive a fork.
  const pid_t child = fork();
  if (child == 0) {
    close(sockets[0]);
    return report(Role::right, run(Role::right, sockets[1]));
  }
  close(sockets[1]);
  const int failed = report(Role::left, run(Role::left, sockets[0]));
  close(sockets[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool ok = failed == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  std::printf("%s\n", ok ? "ok, both processes verified every byte" : "FAILED");
  return ok ? 0 : 1;
}
