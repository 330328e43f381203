// SPDX-License-Identifier: MIT OR Apache-2.0
#include "conformance/raw_peer.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <type_traits>
#include <utility>

namespace verbatim::test {

namespace {

constexpr std::size_t kMemoryBytes = 64 << 10;
constexpr std::byte kEnd{0};  ///< Instead of an order.

template <class Value>
std::span<const std::byte> raw_bytes_of(const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  return std::as_bytes(std::span{&value, 1});
}

template <class Value>
Value value_of(std::span<const std::byte> record) {
  static_assert(std::is_trivially_copyable_v<Value>);
  if (record.size() != sizeof(Value)) give_up("a record has a wrong size", Where::current());
  Value value{};
  std::memcpy(&value, record.data(), sizeof value);
  return value;
}

void send_addresses(Link& link, std::span<const raw::Address> addresses) {
  link.send(std::as_bytes(addresses));
}

std::vector<raw::Address> receive_addresses(Link& link) {
  const std::vector<std::byte> record = link.receive();
  std::vector<raw::Address> addresses(record.size() / sizeof(raw::Address));
  std::memcpy(addresses.data(), record.data(), addresses.size() * sizeof(raw::Address));
  return addresses;
}

class PeerHere : public RawPeer {
 public:
  PeerHere(ibv_qp_type type, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      queue_pairs_.push_back(raw::queue_pair({.domain = domain_.get(),
                                              .sends = queue_.get(),
                                              .receives = queue_.get(),
                                              .type = type}));
    handles_.resize(count);
    others_.resize(count);
  }

  [[nodiscard]] std::vector<raw::Address> addresses() const override {
    std::vector<raw::Address> all;
    for (const auto& each : queue_pairs_) all.push_back(raw::address_of(each.get()));
    return all;
  }

  void connect(std::span<const raw::Address> others) override {
    for (std::size_t i = 0; i < queue_pairs_.size(); ++i) {
      raw::connect(queue_pairs_[i].get(), others[i]);
      if (queue_pairs_[i]->qp_type == IBV_QPT_UD)
        handles_[i] = raw::address_handle(domain_.get(), others[i]);
      others_[i] = others[i].number;
    }
  }

  [[nodiscard]] Outcome execute(const Order& order) override {
    const std::span<std::byte> used = memory_.bytes().first(std::max(order.bytes, 8u));
    const bool comes_back = order.kind == Order::Kind::read || order.kind == Order::Kind::fetch_add;
    std::ranges::fill(used, comes_back ? std::byte{0} : order.fill);
    for (unsigned i = 0; i < order.before; ++i) {
      if (post({.kind = Order::Kind::send, .queue_pair = order.queue_pair, .bytes = 8}) != 0 ||
          !raw::poll_within(queue_.get(), kPatience))
        give_up("a send before the order's", Where::current());
    }
    if (const int error = post(order); error != 0)
      give_up(std::string{"the peer's post: "} + std::strerror(error), Where::current());
    if (order.unwatched) return {.status = IBV_WC_SUCCESS};
    const auto found = raw::poll_within(queue_.get(), kPatience);
    Outcome outcome;
    if (found) outcome.status = found->status;
    std::memcpy(&outcome.word, used.data(), sizeof outcome.word);
    outcome.uniform = std::ranges::all_of(used.first(order.bytes),
                                          [&](std::byte each) { return each == used[0]; });
    return outcome;
  }

 private:
  [[nodiscard]] int post(const Order& order) const {
    ibv_qp* const through = queue_pairs_[order.queue_pair].get();
    const raw::Piece own = raw::local(region_.get(), 0, order.bytes);
    switch (order.kind) {
      case Order::Kind::send:
        if (ibv_ah* const to = handles_[order.queue_pair].get())
          return raw::post_datagram(through, 1, own, to, others_[order.queue_pair]);
        return raw::post_send(through, 1, own);
      case Order::Kind::write: return raw::post_write(through, 1, own, order.target);
      case Order::Kind::read: return raw::post_read(through, 1, own, order.target);
      case Order::Kind::fetch_add: return raw::post_fetch_add(through, 1, own, order.target, 1);
    }
    return -1;
  }

  raw::Owned<ibv_context> context_ = raw::open();
  raw::Owned<ibv_pd> domain_ = raw::domain(context_.get());
  raw::Owned<ibv_cq> queue_ = raw::completion_queue(context_.get());
  raw::Mapping memory_{kMemoryBytes};
  raw::Owned<ibv_mr> region_ = raw::region(domain_.get(), memory_.bytes());
  std::vector<raw::Owned<ibv_ah>> handles_;  ///< Of datagrams.
  std::vector<std::uint32_t> others_;
  std::vector<raw::Owned<ibv_qp>> queue_pairs_;
};

class PeerElsewhere : public RawPeer {
 public:
  PeerElsewhere(ibv_qp_type type, unsigned count)
      : child_(start_child({"raw_peer", std::to_string(listener_.port()), std::to_string(int{type}),
                            std::to_string(count)})),
        link_(listener_.accept()),
        addresses_(receive_addresses(link_)) {}
  PeerElsewhere(const PeerElsewhere&) = delete;
  PeerElsewhere& operator=(const PeerElsewhere&) = delete;
  ~PeerElsewhere() override {
    try {
      link_.send(raw_bytes_of(kEnd));
      const ChildResult result = run_to_end(std::move(child_));
      EXPECT_EQ(result.status, 0) << result.output;
    } catch (const std::exception& failure) {
      ADD_FAILURE() << "the peer's process: " << failure.what();
    }
  }

  [[nodiscard]] std::vector<raw::Address> addresses() const override { return addresses_; }
  void connect(std::span<const raw::Address> others) override {
    send_addresses(link_, others);
    link_.barrier();
  }
  [[nodiscard]] Outcome execute(const Order& order) override {
    link_.send(raw_bytes_of(order));
    return value_of<Outcome>(link_.receive());
  }

 private:
  LinkListener listener_;
  Child child_;
  Link link_;
  std::vector<raw::Address> addresses_;
};

}  // namespace

std::unique_ptr<RawPeer> make_raw_peer(Place place, ibv_qp_type type, unsigned queue_pairs) {
  if (place == Place::this_process) return std::make_unique<PeerHere>(type, queue_pairs);
  return std::make_unique<PeerElsewhere>(type, queue_pairs);
}

int play_raw_peer(std::uint16_t port, const std::string& type, const std::string& queue_pairs) {
  Link link = Link::connect(port);
  PeerHere peer(static_cast<ibv_qp_type>(std::stoi(type)),
                static_cast<unsigned>(std::stoul(queue_pairs)));
  send_addresses(link, peer.addresses());
  peer.connect(receive_addresses(link));
  link.barrier();
  for (;;) {
    const std::vector<std::byte> order = link.receive();
    if (order.size() == sizeof kEnd) return 0;
    link.send(raw_bytes_of(peer.execute(value_of<Order>(order))));
  }
}

Watched::Watched(const WatchedOptions& options)
    : queue(raw::completion_queue(context.get(), options.depth, channel.get())) {
  if (options.shared) shared = raw::shared_receive_queue(domain.get());
  std::vector<raw::Address> own;
  for (unsigned i = 0; i < options.queue_pairs; ++i) {
    queue_pairs.push_back(raw::queue_pair({.domain = domain.get(),
                                           .sends = queue.get(),
                                           .receives = queue.get(),
                                           .shared = shared.get(),
                                           .type = options.type}));
    own.push_back(raw::address_of(queue_pair(i)));
  }
  peer = make_raw_peer(options.peer, options.type, options.queue_pairs);
  if (!options.connected) return;
  const std::vector<raw::Address> theirs = peer->addresses();
  for (unsigned i = 0; i < options.queue_pairs; ++i) raw::connect(queue_pair(i), theirs[i]);
  peer->connect(own);
}

}  // namespace verbatim::test
