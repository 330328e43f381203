// SPDX-License-Identifier: MIT OR Apache-2.0
// Right uses of buffers and owned operations, in the shapes that confuse an analysis of moves. No
// compiler may warn. Compiled only.
#include <array>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "verbatim/verbatim.hpp"

namespace {

using namespace verbatim;

void fill(Buffer& buffer) {
  buffer.with([](std::span<std::byte> bytes) { bytes[0] = std::byte{1}; });
}
std::size_t look(const Buffer& buffer) { return buffer.bytes().size(); }
Buffer pass(Buffer buffer) {
  fill(buffer);
  return buffer;
}

}  // namespace

void straight(Channel& channel, Buffer buffer) {
  fill(buffer);
  Pending sending = channel.send(std::move(buffer));
  auto [back, result] = sending.wait();
  if (result) fill(back);
}
void restored(Channel& channel, Buffer buffer) {
  Pending sending = channel.send(std::move(buffer));
  buffer = sending.wait().buffer;
  fill(buffer);
  buffer = channel.send(std::move(buffer)).wait().buffer;
  static_cast<void>(look(buffer));
}
void loop_restores(Channel& channel, Buffer buffer) {
  for (int i = 0; i < 3; ++i) {
    fill(buffer);
    Pending sending = channel.send(std::move(buffer));
    auto [back, result] = sending.wait();
    buffer = std::move(back);
    if (!result) break;
    static_cast<void>(buffer.bytes());
  }
  static_cast<void>(buffer.bytes());
}
void while_restores(Channel& channel, Buffer buffer) {
  while (!channel.cause()) {
    buffer.with([](std::span<std::byte>) {});
    buffer = channel.receive(std::move(buffer)).wait().buffer;
  }
  static_cast<void>(buffer.bytes());
}
void pipeline(Channel& channel, Buffer first, Buffer second) {
  Pending receiving = channel.receive(std::move(first));
  for (int i = 0; i < 4; ++i) {
    Pending next = channel.receive(std::move(second));
    second = receiving.wait().buffer;
    static_cast<void>(second.bytes());
    receiving = std::move(next);
  }
  static_cast<void>(receiving.wait());
}
Result<Buffer> through_expected(const ProtectionDomain& domain, Channel& channel) {
  auto allocated = domain.allocate(64);
  if (!allocated) return std::unexpected(allocated.error());
  fill(*allocated);
  auto done = channel.send(std::move(*allocated)).wait();
  if (!done.result) return std::unexpected(done.result.error());
  return std::move(done.buffer);
}
void through_optional(Channel& channel, std::optional<Buffer> spare) {
  if (!spare) return;
  std::optional<Pending<Buffer>> sending{channel.send(std::move(*spare))};
  spare.reset();
  spare = sending->wait().buffer;
  sending.reset();
  static_cast<void>(spare->bytes());
}
std::pair<Buffer, Buffer> through_pair(Channel& channel, std::pair<Buffer, Buffer> both) {
  both.first = channel.send(std::move(both.first)).wait().buffer;
  static_cast<void>(both.first.bytes());
  auto [left, right] = std::move(both);
  fill(left);
  fill(right);
  return {std::move(left), std::move(right)};
}
void through_exception(Channel& channel, Buffer buffer) {
  try {
    Completed done = channel.send(std::move(buffer)).wait();
    buffer = std::move(done.buffer);
    if (!done.result) throw std::runtime_error{"send"};
  } catch (const std::runtime_error&) {
    fill(buffer);
  }
  fill(buffer);
}
void through_switch(Channel& channel, Buffer buffer, int what) {
  switch (what) {
    case 0: buffer = channel.send(std::move(buffer)).wait().buffer; break;
    case 1: buffer = channel.receive(std::move(buffer)).wait().buffer; break;
    case 2: fill(buffer); break;
    default: break;
  }
  static_cast<void>(buffer.bytes());
}
void in_one_branch(Channel& channel, Buffer buffer, bool send) {
  if (send) {
    static_cast<void>(channel.send(std::move(buffer)).wait());
    return;
  }
  static_cast<void>(buffer.bytes());
}
void asked_after(Channel& channel, Buffer buffer, bool send) {
  std::optional<Pending<Buffer>> sending;
  if (send) sending.emplace(channel.send(std::move(buffer)));
  if (buffer) static_cast<void>(buffer.bytes());
  if (sending) static_cast<void>(sending->wait());
}
void through_map(Channel& channel, std::map<int, Buffer> buffers) {
  std::map<int, Pending<Buffer>> operations;
  for (auto& [key, buffer] : buffers) operations.emplace(key, channel.send(std::move(buffer)));
  for (auto& [key, operation] : operations) buffers.at(key) = operation.wait().buffer;
  for (auto& [key, buffer] : buffers) static_cast<void>(buffer.bytes());
}
void through_vector(Channel& channel, std::vector<Buffer> buffers) {
  std::vector<Pending<Buffer>> operations;
  for (Buffer& buffer : buffers) operations.push_back(channel.receive(std::move(buffer)));
  buffers.clear();
  for (Pending<Buffer>& operation : operations) {
    if (!operation.ready()) continue;
    buffers.push_back(operation.wait().buffer);
    static_cast<void>(buffers.back().bytes());
  }
}
void through_array(Channel& channel, std::array<Buffer, 2> buffers) {
  Pending sending = channel.send(std::move(buffers));
  auto [back, result] = sending.wait();
  for (Buffer& buffer : back) fill(buffer);
}
void swapped(Channel& channel, Buffer first, Buffer second) {
  for (int i = 0; i < 3; ++i) {
    first = channel.send(std::move(first)).wait().buffer;
    std::swap(first, second);
    static_cast<void>(first.bytes());
    static_cast<void>(second.bytes());
  }
}
void in_lambdas(Channel& channel, Buffer buffer) {
  const auto use = [&] { fill(buffer); };
  use();
  auto own = [kept = std::move(buffer)]() mutable { fill(kept); };
  own();
  const std::function<Buffer(Buffer)> forward = [&](Buffer given) {
    return channel.send(std::move(given)).wait().buffer;
  };
  buffer = forward(pass(forward(pass(channel.domain().allocate(64).value()))));
  static_cast<void>(buffer.bytes());
}
template <class B>
B in_template(Channel& channel, B buffer) {
  Pending<B> sending = channel.send(std::move(buffer));
  static_cast<void>(sending.posted());
  Completed<B> done = sending.wait();
  return std::move(done.buffer);
}
template Buffer in_template(Channel&, Buffer);
template std::array<Buffer, 2> in_template(Channel&, std::array<Buffer, 2>);

struct Connection {
  Channel channel;
  Buffer buffer;
  std::optional<Pending<Buffer>> receiving;

  void post() { receiving.emplace(channel.receive(std::move(buffer))); }
  void take() {
    if (!receiving || !receiving->ready()) return;
    buffer = receiving->wait().buffer;
    receiving.reset();
    static_cast<void>(buffer.bytes());
  }
};
void by_reference(Channel& channel, Buffer& buffer, Pending<Buffer>& receiving) {
  Pending sending = channel.send(std::move(buffer));
  buffer = sending.wait().buffer;
  fill(buffer);
  if (receiving.ready()) buffer = receiving.wait().buffer;
  fill(buffer);
}
Pending<Buffer> returned(Channel& channel, Buffer buffer) {
  fill(buffer);
  Pending sending = channel.send(std::move(buffer));
  if (!sending.posted()) return channel.send(sending.wait().buffer);
  return sending;
}
Buffer ternary(Buffer first, Buffer second, bool which) {
  Buffer chosen = which ? std::move(first) : std::move(second);
  fill(chosen);
  return chosen;
}
void kept_on_heap(Channel& channel, Buffer buffer) {
  const auto sending = std::make_unique<Pending<Buffer>>(channel.send(std::move(buffer)));
  while (!sending->ready()) {
  }
  buffer = sending->wait().buffer;
  static_cast<void>(buffer.bytes());
}
