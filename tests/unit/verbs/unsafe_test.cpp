// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each kind of work reaches the device with every field that its opcode needs, and what the
//       device would refuse without a reason is refused before, with name and numbers.
// Method: the post verbs are replaced by ones that keep what they are given.
#include "verbatim/verbs/unsafe.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cerrno>
#include <optional>
#include <vector>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "support/post_capture.hpp"
#include "verbatim/verbs/batch.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"

namespace verbatim::test {
namespace {

constexpr std::uint32_t kImmediate = 0x11223344;
constexpr RemoteMemoryRegion kRemote{
    .address = 0x7000'1234'5678, .length = 4096, .key = RemoteKey{0xabcd}};

class UnsafeTest : public NullDevice {
 protected:
  /// A connected queue pair whose posts are kept.
  struct Line {
    explicit Line(const Context& context, const std::function<void(QueuePairOptions&)>& change = {})
        : bench(context),
          buffer(require(bench.domain.allocate(8192))),
          queue_pair(bench.connected(change)),
          capture(unsafe::native(context)) {}

    template <class Work>
    const Captured<ibv_send_wr>& post(const Work& work, WrId id = WrId{42},
                                      unsafe::Signal signal = unsafe::Signal::completion) {
      require(unsafe::post(queue_pair, work, id, signal));
      return capture.sends.back();
    }
    template <class Work>
    [[nodiscard]] Result<void> try_post(const Work& work) {
      return unsafe::post(queue_pair, work, WrId{42});
    }
    std::uint64_t address(std::size_t offset) {
      return reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) + offset;
    }
    std::uint32_t key() { return unsafe::native(buffer.region())->lkey; }

    Bench bench;
    Buffer buffer;
    QueuePair queue_pair;
    PostCapture capture;
  };
  static std::uint32_t in_network_order(std::uint32_t value) {
    return std::endian::native == std::endian::little ? std::byteswap(value) : value;
  }
  static void expect_element(const ibv_sge& element, std::uint64_t address, std::uint32_t length,
                             std::uint32_t key) {
    EXPECT_EQ(element.addr, address);
    EXPECT_EQ(element.length, length);
    EXPECT_EQ(element.lkey, key);
  }
};

// ---- What each kind of work becomes

TEST_F(UnsafeTest, Send) {
  Line line(open());
  const auto& [wr, elements] = line.post(Send{line.buffer.gather(10, 20)});
  EXPECT_EQ(wr.wr_id, 42u);
  EXPECT_EQ(wr.next, nullptr);
  EXPECT_EQ(wr.opcode, IBV_WR_SEND);
  EXPECT_EQ(wr.send_flags, unsigned{IBV_SEND_SIGNALED});
  ASSERT_EQ(elements.size(), 1u);
  expect_element(elements[0], line.address(10), 20, line.key());
}

TEST_F(UnsafeTest, SendOfManyPieces) {
  Line line(open());
  const std::array pieces{line.buffer.gather(0, 1), line.buffer.gather(100, 2),
                          line.buffer.gather(200, 3)};
  for (const bool by_value : {true, false}) {
    const auto& [wr, elements] = by_value ? line.post(Send{pieces})
                                          : line.post(Send{std::span<const GatherElement>{pieces}});
    EXPECT_EQ(wr.num_sge, 3);
    ASSERT_EQ(elements.size(), 3u);
    expect_element(elements[0], line.address(0), 1, line.key());
    expect_element(elements[1], line.address(100), 2, line.key());
    expect_element(elements[2], line.address(200), 3, line.key());
  }
}

// On the wire the most significant byte comes first, whatever the machine.
TEST_F(UnsafeTest, SendWithImmediate) {
  Line line(open());
  const auto& [wr, elements] = line.post(Send{line.buffer.gather(0, 4), {.immediate = kImmediate}});
  EXPECT_EQ(wr.opcode, IBV_WR_SEND_WITH_IMM);
  const auto bytes = std::bit_cast<std::array<std::uint8_t, 4>>(wr.imm_data);
  EXPECT_EQ(bytes, (std::array<std::uint8_t, 4>{0x11, 0x22, 0x33, 0x44}));
}

TEST_F(UnsafeTest, SendOfAnImmediateOnly) {
  Line line(open());
  const auto& [wr, elements] = line.post(send_immediate(kImmediate));
  EXPECT_EQ(wr.opcode, IBV_WR_SEND_WITH_IMM);
  EXPECT_EQ(wr.imm_data, in_network_order(kImmediate));
  EXPECT_EQ(wr.num_sge, 0);
  EXPECT_EQ(wr.send_flags, unsigned{IBV_SEND_SIGNALED});
}

TEST_F(UnsafeTest, AnImmediateOfZeroIsAnImmediate) {
  Line line(open());
  EXPECT_EQ(line.post(send_immediate(0)).request.opcode, IBV_WR_SEND_WITH_IMM);
}

TEST_F(UnsafeTest, EmptySend) {
  Line line(open());
  const auto& [wr, elements] = line.post(Send{});
  EXPECT_EQ(wr.opcode, IBV_WR_SEND);
  EXPECT_EQ(wr.num_sge, 0);
}

TEST_F(UnsafeTest, EachOptionIsOneFlag) {
  Line line(open());
  struct Row {
    SendOptions options;
    unsigned flags;
  };
  for (const auto& [options, flags] :
       {Row{{}, 0u}, Row{{.inlined = true}, unsigned{IBV_SEND_INLINE}},
        Row{{.fenced = true}, unsigned{IBV_SEND_FENCE}},
        Row{{.solicited = true}, unsigned{IBV_SEND_SOLICITED}},
        Row{{.inlined = true, .fenced = true, .solicited = true},
            unsigned{IBV_SEND_INLINE} | unsigned{IBV_SEND_FENCE} | unsigned{IBV_SEND_SOLICITED}}}) {
    for (const auto signal : {unsafe::Signal::completion, unsafe::Signal::none}) {
      const unsigned expected =
          flags | (signal == unsafe::Signal::none ? 0u : unsigned{IBV_SEND_SIGNALED});
      const auto& send = line.post(Send{line.buffer.gather(0, 8), options}, WrId{42}, signal);
      EXPECT_EQ(send.request.send_flags, expected);
      const auto& write =
          line.post(Write{line.buffer.gather(0, 8), kRemote, options}, WrId{42}, signal);
      EXPECT_EQ(write.request.send_flags, expected);
    }
  }
  const auto& read = line.post(Read{line.buffer.scatter(0, 8), kRemote, {.fenced = true}}, WrId{42},
                               unsafe::Signal::none);
  EXPECT_EQ(read.request.send_flags, unsigned{IBV_SEND_FENCE});
}

TEST_F(UnsafeTest, Write) {
  Line line(open());
  const auto& [wr, elements] = line.post(Write{line.buffer.gather(10, 20), kRemote});
  EXPECT_EQ(wr.wr_id, 42u);
  EXPECT_EQ(wr.next, nullptr);
  EXPECT_EQ(wr.opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(wr.send_flags, unsigned{IBV_SEND_SIGNALED});
  EXPECT_EQ(wr.wr.rdma.remote_addr, kRemote.address);
  EXPECT_EQ(wr.wr.rdma.rkey, 0xabcdu);
  ASSERT_EQ(elements.size(), 1u);
  expect_element(elements[0], line.address(10), 20, line.key());
}

TEST_F(UnsafeTest, WriteWithImmediate) {
  Line line(open());
  const auto& [wr, elements] =
      line.post(Write{std::array{line.buffer.gather(0, 1), line.buffer.gather(5, 2)},
                      kRemote,
                      {.immediate = kImmediate}});
  EXPECT_EQ(wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(wr.imm_data, in_network_order(kImmediate));
  EXPECT_EQ(wr.wr.rdma.remote_addr, kRemote.address);
  EXPECT_EQ(wr.num_sge, 2);
}

TEST_F(UnsafeTest, WriteThroughATypedSpan) {
  Line line(open());
  const auto span = RemoteSpan<std::uint64_t, Access::remote_write>::of(kRemote);
  EXPECT_EQ(line.post(Write{line.buffer.gather(0, 8), span[3]}).request.wr.rdma.remote_addr,
            kRemote.address + 24);
  EXPECT_EQ(line.post(Write{line.buffer.gather(0, 4096), span}).request.wr.rdma.remote_addr,
            kRemote.address);
  EXPECT_TRUE(fails_naming(line.try_post(Write{line.buffer.gather(0, 9), span[3]}),
                           Errc::limit_exceeded, "remote region", {.value = 9, .limit = 8}));
}

TEST_F(UnsafeTest, Read) {
  Line line(open());
  const auto& [wr, elements] =
      line.post(Read{std::array{line.buffer.scatter(0, 5), line.buffer.scatter(64, 6)}, kRemote});
  EXPECT_EQ(wr.wr_id, 42u);
  EXPECT_EQ(wr.next, nullptr);
  EXPECT_EQ(wr.opcode, IBV_WR_RDMA_READ);
  EXPECT_EQ(wr.send_flags, unsigned{IBV_SEND_SIGNALED});
  EXPECT_EQ(wr.wr.rdma.remote_addr, kRemote.address);
  EXPECT_EQ(wr.wr.rdma.rkey, 0xabcdu);
  ASSERT_EQ(elements.size(), 2u);
  expect_element(elements[0], line.address(0), 5, line.key());
  expect_element(elements[1], line.address(64), 6, line.key());
}

RemoteAtomic atomic_word() {
  return require(RemoteAtomic::at({.address = 0x7000, .length = 64, .key = RemoteKey{5}}, 16));
}

TEST_F(UnsafeTest, CompareSwap) {
  Line line(open());
  const auto& [wr, elements] = line.post(CompareSwap{
      .into = line.buffer.scatter(8, 8), .at = atomic_word(), .compare = 0x1111, .swap = 0x2222});
  EXPECT_EQ(wr.wr_id, 42u);
  EXPECT_EQ(wr.next, nullptr);
  EXPECT_EQ(wr.opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
  EXPECT_EQ(wr.send_flags, unsigned{IBV_SEND_SIGNALED});
  EXPECT_EQ(wr.wr.atomic.remote_addr, 0x7010u);
  EXPECT_EQ(wr.wr.atomic.rkey, 5u);
  EXPECT_EQ(wr.wr.atomic.compare_add, 0x1111u);
  EXPECT_EQ(wr.wr.atomic.swap, 0x2222u);
  ASSERT_EQ(elements.size(), 1u);
  expect_element(elements[0], line.address(8), 8, line.key());
}

TEST_F(UnsafeTest, FetchAdd) {
  Line line(open());
  const auto& [wr, elements] = line.post(FetchAdd{.into = line.buffer.scatter(0, 8),
                                                  .at = atomic_word(),
                                                  .add = 0x3333,
                                                  .options = {.fenced = true}},
                                         WrId{42}, unsafe::Signal::none);
  EXPECT_EQ(wr.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
  EXPECT_EQ(wr.send_flags, unsigned{IBV_SEND_FENCE});
  EXPECT_EQ(wr.wr.atomic.remote_addr, 0x7010u);
  EXPECT_EQ(wr.wr.atomic.rkey, 5u);
  EXPECT_EQ(wr.wr.atomic.compare_add, 0x3333u);
  ASSERT_EQ(elements.size(), 1u);
  expect_element(elements[0], line.address(0), 8, line.key());
}

ibv_ah* made_handle = nullptr;

TEST_F(UnsafeTest, Datagram) {
  table.create_ah = [](ibv_pd* domain, ibv_ah_attr* attributes) {
    return made_handle = verbatim_null_provider()->create_ah(domain, attributes);
  };
  const Bench bench(open());
  auto prepared = require(bench.prepare(
      [](QueuePairOptions& options) { options.type = QueuePairType::unreliable_datagram; }));
  QueuePair queue_pair = require(std::move(prepared).activate());
  const Buffer buffer = require(bench.domain.allocate(100));
  const AddressHandle to = require(queue_pair.address_handle(queue_pair.endpoint()));
  PostCapture capture(unsafe::native(bench.context));
  require(unsafe::post(queue_pair,
                       Datagram{buffer.gather(0, 50), to, QpNumber{0x99}, QueueKey{0xfeed},
                                SendOptions{.immediate = kImmediate}},
                       WrId{8}));
  const auto& [wr, elements] = capture.sends.at(0);
  EXPECT_EQ(wr.wr_id, 8u);
  EXPECT_EQ(wr.opcode, IBV_WR_SEND_WITH_IMM);
  EXPECT_EQ(wr.imm_data, in_network_order(kImmediate));
  EXPECT_EQ(wr.wr.ud.ah, made_handle);
  EXPECT_EQ(wr.wr.ud.remote_qpn, 0x99u);
  EXPECT_EQ(wr.wr.ud.remote_qkey, 0xfeedu);
  ASSERT_EQ(elements.size(), 1u);
  EXPECT_EQ(elements[0].length, 50u);
}

// Without an address the device would follow an arbitrary pointer.
TEST_F(UnsafeTest, OnADatagramQueuePairEverythingElseIsRefused) {
  const Bench bench(open());
  auto prepared = require(bench.prepare(
      [](QueuePairOptions& options) { options.type = QueuePairType::unreliable_datagram; }));
  QueuePair queue_pair = require(std::move(prepared).activate());
  const Buffer buffer = require(bench.domain.allocate(100));
  PostCapture capture(unsafe::native(bench.context));
  const auto refused = [&](const auto& work) {
    unsafe::SendBatch<1> batch{queue_pair};
    return fails_naming(unsafe::post(queue_pair, work, WrId{1}), Errc::invalid_argument,
                        "Datagram") &&
           fails_naming(batch.add(work, WrId{1}), Errc::invalid_argument, "Datagram");
  };
  EXPECT_TRUE(refused(Send{buffer.gather(0, 50)}));
  EXPECT_TRUE(refused(Send{}));
  EXPECT_TRUE(refused(send_immediate(kImmediate)));
  EXPECT_TRUE(refused(Send{buffer.gather(0, 1), {.inlined = true}}));
  EXPECT_TRUE(refused(Write{buffer.gather(0, 50), kRemote}));
  EXPECT_EQ(capture.calls, 0u);
  // The queue pair remembers this after a move, by construction and by assignment.
  QueuePair moved = std::move(queue_pair);
  EXPECT_TRUE(
      fails_naming(unsafe::post(moved, Send{}, WrId{1}), Errc::invalid_argument, "Datagram"));
  QueuePair assigned = bench.connected();
  EXPECT_TRUE(succeeds(unsafe::post(assigned, Send{}, WrId{1})));
  assigned = std::move(moved);
  EXPECT_TRUE(
      fails_naming(unsafe::post(assigned, Send{}, WrId{1}), Errc::invalid_argument, "Datagram"));
}

TEST_F(UnsafeTest, Receive) {
  Line line(open());
  require(unsafe::post(line.queue_pair, Receive{line.buffer.scatter(4, 5)}, WrId{9}));
  require(unsafe::post(line.queue_pair, Receive{}, WrId{10}));
  ASSERT_EQ(line.capture.receives.size(), 2u);
  const auto& [wr, elements] = line.capture.receives[0];
  EXPECT_EQ(wr.wr_id, 9u);
  EXPECT_EQ(wr.next, nullptr);
  ASSERT_EQ(elements.size(), 1u);
  expect_element(elements[0], line.address(4), 5, line.key());
  EXPECT_EQ(line.capture.receives[1].request.num_sge, 0);
}

TEST_F(UnsafeTest, ReceivesMayBePostedBeforeConnecting) {
  const Bench bench(open());
  auto prepared = require(bench.prepare());
  Buffer buffer = require(bench.domain.allocate(100));
  EXPECT_TRUE(succeeds(unsafe::post(prepared, Receive{buffer.scatter()}, WrId{1})));
}

// ---- What is refused

TEST_F(UnsafeTest, RefusesMoreElementsThanTheQueueTakes) {
  Line line(open(), [](QueuePairOptions& options) {
    options.max_send_elements = 2;
    options.max_receive_elements = 1;
  });
  const Numbers numbers{.value = 3, .limit = 2};
  const auto g = [&] { return line.buffer.gather(0, 1); };
  const auto s = [&] { return line.buffer.scatter(0, 1); };
  EXPECT_TRUE(succeeds(line.try_post(Send{std::array{g(), g()}})));
  EXPECT_TRUE(fails_naming(line.try_post(Send{std::array{g(), g(), g()}}), Errc::limit_exceeded,
                           "elements", numbers));
  EXPECT_TRUE(fails_naming(line.try_post(Write{std::array{g(), g(), g()}, kRemote}),
                           Errc::limit_exceeded, "elements", numbers));
  EXPECT_TRUE(fails_naming(line.try_post(Read{std::array{s(), s(), s()}, kRemote}),
                           Errc::limit_exceeded, "elements", numbers));
  EXPECT_TRUE(fails_naming(line.try_post(Receive{std::array{s(), s()}}), Errc::limit_exceeded,
                           "elements", {.value = 2, .limit = 1}));
  EXPECT_EQ(line.capture.calls, 1u);
}

TEST_F(UnsafeTest, RefusesMessagesLongerThanThePort) {
  knobs.port.max_msg_sz = 100;
  Line line(open());
  EXPECT_TRUE(succeeds(line.try_post(Send{line.buffer.gather(0, 100)})));
  const Numbers numbers{.value = 101, .limit = 100};
  // The sum counts, not the pieces.
  const std::array pieces{line.buffer.gather(0, 50), line.buffer.gather(50, 51)};
  EXPECT_TRUE(
      fails_naming(line.try_post(Send{pieces}), Errc::limit_exceeded, "message bytes", numbers));
  EXPECT_TRUE(fails_naming(line.try_post(Write{pieces, kRemote}), Errc::limit_exceeded,
                           "message bytes", numbers));
  EXPECT_TRUE(fails_naming(line.try_post(Read{line.buffer.scatter(0, 101), kRemote}),
                           Errc::limit_exceeded, "message bytes", numbers));
}

// Two elements of 4 GiB less one byte each: the sum does not fit 32 bits.
TEST_F(UnsafeTest, CountsMessagesIn64Bits) {
  knobs.port.max_msg_sz = 1u << 30;
  Line line(open());
  auto* const anywhere = reinterpret_cast<std::byte*>(0x1000'0000);
  const auto region =
      require(line.bench.domain.register_local(std::span{anywhere, std::size_t{1} << 33}));
  const auto piece = require(region.gather_at(0, 0xffff'ffff));
  EXPECT_TRUE(fails_naming(line.try_post(Send{std::array{piece, piece}}), Errc::limit_exceeded,
                           "message bytes", {.value = 0x1'ffff'fffe, .limit = 1u << 30}));
}

TEST_F(UnsafeTest, RefusesInlineDataThatIsTooLong) {
  Line line(open(), [](QueuePairOptions& options) { options.max_inline_bytes = 32; });
  const SendOptions inlined{.inlined = true};
  EXPECT_TRUE(succeeds(line.try_post(Send{line.buffer.gather(0, 32), inlined})));
  const Numbers numbers{.value = 33, .limit = 32};
  EXPECT_TRUE(fails_naming(line.try_post(Send{line.buffer.gather(0, 33), inlined}),
                           Errc::limit_exceeded, "inline bytes", numbers));
  EXPECT_TRUE(fails_naming(line.try_post(Write{line.buffer.gather(0, 33), kRemote, inlined}),
                           Errc::limit_exceeded, "inline bytes", numbers));
  EXPECT_TRUE(succeeds(line.try_post(Send{line.buffer.gather(0, 33)})));
}

TEST_F(UnsafeTest, RefusesToGoBeyondTheRemoteRegion) {
  Line line(open());
  const RemoteMemoryRegion ten{.address = 0x1000, .length = 10, .key = RemoteKey{1}};
  EXPECT_TRUE(succeeds(line.try_post(Write{line.buffer.gather(0, 10), ten})));
  EXPECT_TRUE(succeeds(line.try_post(Read{line.buffer.scatter(0, 10), ten})));
  const Numbers numbers{.value = 11, .limit = 10};
  EXPECT_TRUE(fails_naming(line.try_post(Write{line.buffer.gather(0, 11), ten}),
                           Errc::limit_exceeded, "remote region", numbers));
  EXPECT_TRUE(fails_naming(line.try_post(Read{line.buffer.scatter(0, 11), ten}),
                           Errc::limit_exceeded, "remote region", numbers));
}

TEST_F(UnsafeTest, RefusesReadsThatWereNotAgreedOn) {
  Line line(open(), [](QueuePairOptions& options) { options.max_read_atomic = 0; });
  EXPECT_TRUE(fails_naming(line.try_post(Read{line.buffer.scatter(0, 8), kRemote}),
                           Errc::unsupported, "max_read_atomic"));
  EXPECT_TRUE(
      fails_naming(line.try_post(FetchAdd{.into = line.buffer.scatter(0, 8), .at = atomic_word()}),
                   Errc::unsupported, "atomics"));
  EXPECT_TRUE(succeeds(line.try_post(Write{line.buffer.gather(0, 8), kRemote})));
}

TEST_F(UnsafeTest, RefusesAtomicsThatTheDeviceLacks) {
  knobs.device.atomic_cap = IBV_ATOMIC_NONE;
  Line line(open());
  EXPECT_TRUE(fails_naming(
      line.try_post(CompareSwap{.into = line.buffer.scatter(0, 8), .at = atomic_word()}),
      Errc::unsupported, "atomics"));
  EXPECT_TRUE(succeeds(line.try_post(Read{line.buffer.scatter(0, 8), kRemote})));
}

TEST_F(UnsafeTest, RefusesAtomicResultsThatAreNotAWord) {
  Line line(open());
  for (const std::size_t bytes : {0u, 4u, 7u, 9u, 16u}) {
    EXPECT_TRUE(fails_naming(
        line.try_post(FetchAdd{.into = line.buffer.scatter(0, bytes), .at = atomic_word()}),
        Errc::invalid_argument, "atomic result", {.value = bytes, .limit = 8}));
  }
  EXPECT_EQ(line.capture.calls, 0u);
}

TEST_F(UnsafeTest, RefusesReadsOfAnUnreliableConnection) {
  Line line(open(),
            [](QueuePairOptions& options) { options.type = QueuePairType::unreliable_connection; });
  EXPECT_TRUE(
      fails_with(line.try_post(Read{line.buffer.scatter(0, 8), kRemote}), Errc::unsupported));
  EXPECT_TRUE(succeeds(line.try_post(Write{line.buffer.gather(0, 8), kRemote})));
}

// ---- What the device says

TEST_F(UnsafeTest, AFullQueueWouldBlock) {
  Line line(open());
  for (const int refusal : {ENOMEM, ENOSPC}) {
    line.capture.accept = 0;
    line.capture.refusal = refusal;
    const auto sent = line.try_post(Send{line.buffer.gather()});
    ASSERT_TRUE(fails_with(sent, Errc::would_block));
    EXPECT_EQ(sent.error().os_error, refusal);
    EXPECT_STREQ(sent.error().operation, "ibv_post_send");
    const auto received = line.try_post(Receive{line.buffer.scatter()});
    ASSERT_TRUE(fails_with(received, Errc::would_block));
    EXPECT_STREQ(received.error().operation, "ibv_post_recv");
  }
}

TEST_F(UnsafeTest, AnyOtherRefusalKeepsTheErrno) {
  Line line(open());
  struct Row {
    int answer;
    int os_error;
    Errc code;
  };
  for (const auto& [answer, os_error, code] :
       {Row{EINVAL, EINVAL, Errc::invalid_argument}, Row{EIO, EIO, Errc::driver},
        Row{-EFAULT, EFAULT, Errc::driver}}) {
    line.capture.accept = 0;
    line.capture.refusal = answer;
    const auto sent = line.try_post(Send{});
    ASSERT_TRUE(fails_with(sent, code));
    EXPECT_EQ(sent.error().os_error, os_error);
  }
}

TEST_F(UnsafeTest, TheQueueOfARealDepthFillsUp) {
  Bench bench(open());
  QueuePair queue_pair =
      bench.connected([](QueuePairOptions& options) { options.max_send_requests = 4; });
  for (int i = 0; i < 4; ++i) require(unsafe::post(queue_pair, send_immediate(0), WrId{1}));
  EXPECT_TRUE(fails_with(unsafe::post(queue_pair, send_immediate(0), WrId{1}), Errc::would_block));
  std::array<Completion, 4> completions;
  EXPECT_EQ(require(bench.queue.poll(completions)), 4u);
  EXPECT_TRUE(succeeds(unsafe::post(queue_pair, send_immediate(0), WrId{1})));
}

TEST_F(UnsafeTest, WithoutSignalThereIsNoCompletion) {
  Bench bench(open());
  QueuePair queue_pair = bench.connected();
  require(unsafe::post(queue_pair, Send<0>{}, WrId{1}, unsafe::Signal::none));
  require(unsafe::post(queue_pair, Send<0>{}, WrId{2}, unsafe::Signal::completion));
  std::array<Completion, 4> completions;
  ASSERT_EQ(require(bench.queue.poll(completions)), 1u);
  EXPECT_EQ(completions[0].id(), WrId{2});
}

// ---- Raw handles

TEST_F(UnsafeTest, RawHandlesAreTheObjectsThemselves) {
  Line line(open());
  const auto shared = require(line.bench.domain.create_shared_receive_queue({.max_requests = 1}));
  ibv_context* const context = unsafe::native(line.bench.context);
  EXPECT_STREQ(context->device->name, "null0");
  EXPECT_EQ(unsafe::native(line.bench.domain)->context, context);
  EXPECT_EQ(unsafe::native(line.bench.queue)->context, context);
  EXPECT_EQ(unsafe::native(shared)->pd, unsafe::native(line.bench.domain));
  EXPECT_EQ(unsafe::native(line.queue_pair)->qp_num, std::to_underlying(line.queue_pair.number()));
  EXPECT_EQ(unsafe::native(line.buffer.region())->pd, unsafe::native(line.bench.domain));
  EXPECT_EQ(unsafe::lkey(line.buffer.region()), LocalKey{line.key()});
}

}  // namespace
}  // namespace verbatim::test
