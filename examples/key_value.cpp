// SPDX-License-Identifier: MIT OR Apache-2.0
// A key-value server. A small value is part of the answer. For a large one the client gets an
// address and a key, and reads the value by RDMA, without the server's processor.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <verbatim/verbatim.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace vb = verbatim;

namespace {

// [format]
// A request is a kind, the length of its key, the key, and the value to put. An answer is a kind,
// and either a value or the place to read it from.
enum class Kind : std::uint8_t { put, get, done, value, place, refused };
constexpr std::size_t kMessageBytes = 65536;
constexpr std::size_t kSmallBytes = 1024;  // larger values are read by RDMA
using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

std::size_t write(Bytes message, Kind kind, ConstBytes content = {}) {
  message[0] = static_cast<std::byte>(kind);
  std::ranges::copy(content, message.begin() + 1);
  return 1 + content.size();
}
Kind kind_of(ConstBytes message) { return static_cast<Kind>(message[0]); }
// [/format]

// [serve]
using Values = std::map<std::string, vb::SharedRegion>;

// Writes the answer over the request. Returns its length.
std::size_t answer(const vb::ProtectionDomain& domain, Values& values, Bytes message,
                   std::size_t length) {
  const std::size_t key_end = length < 2 ? 0 : 2 + std::to_integer<std::size_t>(message[1]);
  if (length < 2 || length < key_end) return write(message, Kind::refused);  // never trust a peer
  const std::string key{reinterpret_cast<const char*>(&message[2]), key_end - 2};
  const ConstBytes given = message.subspan(key_end, length - key_end);
  const auto found = values.find(key);
  // A value never changes, because clients may be reading it.
  if (kind_of(message) == Kind::put && found == values.end() && !given.empty()) {
    auto memory = domain.allocate_shared(given.size(), vb::Access::remote_read);
    if (!memory) return write(message, Kind::refused);
    std::ranges::copy(given, memory->quiescent_bytes().begin());
    values.emplace(key, *std::move(memory));
    return write(message, Kind::done);
  }
  if (kind_of(message) != Kind::get || found == values.end()) return write(message, Kind::refused);
  vb::SharedRegion& value = found->second;
  if (value.size() <= kSmallBytes) return write(message, Kind::value, value.quiescent_bytes());
  return write(message, Kind::place, encode(value.remote()));
}

vb::Task<void> serve(vb::Channel channel, Values& values, vb::Buffer buffer) {
  while (buffer) {
    auto [message, got] = co_await channel.receive(std::move(buffer));
    if (!got) co_return;
    const std::size_t length =
        answer(channel.domain(), values, message.bytes(), *got->byte_count());
    auto sent = co_await channel.send(std::move(message), {.length = length});
    if (sent.result) buffer = std::move(sent.buffer);
  }
}

vb::Task<vb::Result<void>> listen(vb::Reactor& reactor, vb::Listener& listener, Values& values,
                                  vb::Pool& pool) {
  for (;;) {
    auto client = co_await reactor.accept(listener);
    if (!client) co_return std::unexpected(client.error());
    reactor.spawn(serve(std::move(client->channel), values, pool.try_take()));
  }
}
// [/serve]

vb::Result<void> run_server(const std::string& address) {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  Values values;
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain));
  auto pool = VERBATIM_TRY(vb::Pool::create(domain, {.bytes = kMessageBytes, .count = 64}));
  const vb::ChannelOptions options{.on = reactor, .max_sends = 1, .max_receives = 1};
  auto listener = VERBATIM_TRY(vb::Listener::open(domain, address, {.channel = options}));
  return reactor.run(listen(reactor, listener, values, pool));
}

// [client]
struct Client {
  vb::Channel channel;
  vb::Pool pool;  // for a request and its answer
};

vb::Error failed(vb::Errc code) { return {.code = code, .operation = "key_value"}; }

vb::Result<vb::Completed<vb::Buffer>> ask(Client& client, Kind kind, std::string_view key,
                                          ConstBytes value = {}) {
  const std::size_t length = 2 + key.size() + value.size();
  if (key.size() > 255 || length > kMessageBytes)
    return std::unexpected(failed(vb::Errc::limit_exceeded));
  auto receiving = client.channel.receive(VERBATIM_TRY(client.pool.take()));
  auto request = VERBATIM_TRY(client.pool.take());
  const Bytes bytes = request.bytes();
  bytes[0] = static_cast<std::byte>(kind);
  bytes[1] = static_cast<std::byte>(key.size());
  std::ranges::copy(std::as_bytes(std::span{key}), bytes.begin() + 2);
  std::ranges::copy(value, bytes.begin() + 2 + static_cast<std::ptrdiff_t>(key.size()));
  VERBATIM_TRY(client.channel.send(std::move(request), {.length = length}).wait().result);
  auto answer = receiving.wait();
  VERBATIM_TRY(answer.result);
  if (answer.received().empty()) return std::unexpected(failed(vb::Errc::malformed));
  return answer;
}

vb::Result<void> put(Client& client, std::string_view key, ConstBytes value) {
  const auto answer = VERBATIM_TRY(ask(client, Kind::put, key, value));
  if (kind_of(answer.received()) == Kind::done) return {};
  return std::unexpected(failed(vb::Errc::permission_denied));
}

vb::Result<std::vector<std::byte>> get(Client& client, std::string_view key) {
  const auto answer = VERBATIM_TRY(ask(client, Kind::get, key));
  const ConstBytes content = answer.received().subspan(1);
  if (kind_of(answer.received()) == Kind::value)
    return std::vector<std::byte>{content.begin(), content.end()};
  if (kind_of(answer.received()) != Kind::place)
    return std::unexpected(failed(vb::Errc::not_found));
  const auto place = VERBATIM_TRY(vb::decode_remote_memory(content));
  if (place.length > kMessageBytes) return std::unexpected(failed(vb::Errc::malformed));
  std::vector<std::byte> value(place.length);
  const auto region = VERBATIM_TRY(client.channel.domain().register_local(value));
  VERBATIM_TRY(client.channel.read(region.scatter(value), place));
  return value;
}
// [/client]

vb::Result<void> run_client(const std::string& address) {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto pool = VERBATIM_TRY(vb::Pool::create(domain, {.bytes = kMessageBytes, .count = 2}));
  Client client{VERBATIM_TRY(vb::dial(domain, address)).channel, std::move(pool)};
  for (const std::size_t size : {5uz, kSmallBytes, kSmallBytes + 1, 60'000uz}) {
    const std::string key = std::to_string(size) + " bytes";
    std::vector<std::byte> value(size);
    for (std::size_t i = 0; i < size; ++i) value[i] = static_cast<std::byte>(i * size >> 3);
    VERBATIM_TRY(put(client, key, value));
    if (VERBATIM_TRY(get(client, key)) != value)
      return std::unexpected(failed(vb::Errc::malformed));
    std::printf("%s: %s\n", key.c_str(), size <= kSmallBytes ? "in the answer" : "read by RDMA");
  }
  if (put(client, "5 bytes", {}) || get(client, "no such key"))
    return std::unexpected(failed(vb::Errc::malformed));
  return client.channel.close();
}

}  // namespace

int main() {
  const std::string address = "unix:@verbatim-key-value-" + std::to_string(getpid());
  const pid_t server = fork();  // before any device is opened
  const auto ended = server == 0 ? run_server(address) : run_client(address);
  if (!ended) std::fprintf(stderr, "%s\n", vb::explain(ended.error()).c_str());
  if (server > 0) {
    kill(server, SIGTERM);
    waitpid(server, nullptr, 0);
  }
  return ended ? 0 : 1;
}
