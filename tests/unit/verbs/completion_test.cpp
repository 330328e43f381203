// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a completion tells only what the specification makes valid.
// Method: hand-made ibv_wc, as a device would write them into the caller's array.
#include "verbatim/verbs/completion.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <bit>

namespace verbatim {
namespace {

Completion completion(const ibv_wc& wc) { return std::bit_cast<Completion>(wc); }

ibv_wc success(ibv_wc_opcode opcode) {
  ibv_wc wc{};
  wc.wr_id = 7;
  wc.status = IBV_WC_SUCCESS;
  wc.opcode = opcode;
  wc.byte_len = 100;
  wc.qp_num = 0x11;
  wc.src_qp = 0x22;
  return wc;
}

ibv_wc failure() {
  ibv_wc wc = success(IBV_WC_RECV);  // All fields filled: they are garbage in a failure.
  wc.status = IBV_WC_RETRY_EXC_ERR;
  wc.vendor_err = 0x81;
  wc.wc_flags = IBV_WC_WITH_IMM | IBV_WC_GRH;
  wc.imm_data = htonl(5);
  return wc;
}

TEST(Completion, OpcodesAreTold) {
  struct Row {
    ibv_wc_opcode verbs;
    Opcode opcode;
  };
  for (const Row& row : {
           Row{IBV_WC_SEND, Opcode::send},
           Row{IBV_WC_RDMA_WRITE, Opcode::write},
           Row{IBV_WC_RDMA_READ, Opcode::read},
           Row{IBV_WC_COMP_SWAP, Opcode::compare_swap},
           Row{IBV_WC_FETCH_ADD, Opcode::fetch_add},
           Row{IBV_WC_RECV, Opcode::receive},
           Row{IBV_WC_RECV_RDMA_WITH_IMM, Opcode::receive_immediate},
           Row{IBV_WC_BIND_MW, Opcode::other},
       })
    EXPECT_EQ(completion(success(row.verbs)).opcode(), row.opcode);
}

TEST(Completion, LengthIsToldOnlyWhereItIsSpecified) {
  EXPECT_EQ(completion(success(IBV_WC_RECV)).byte_count(), 100u);
  EXPECT_EQ(completion(success(IBV_WC_RECV_RDMA_WITH_IMM)).byte_count(), 100u);
  EXPECT_EQ(completion(success(IBV_WC_RDMA_READ)).byte_count(), 100u);
  EXPECT_EQ(completion(success(IBV_WC_COMP_SWAP)).byte_count(), 8u);
  EXPECT_EQ(completion(success(IBV_WC_FETCH_ADD)).byte_count(), 8u);
  EXPECT_EQ(completion(success(IBV_WC_SEND)).byte_count(), std::nullopt);
  EXPECT_EQ(completion(success(IBV_WC_RDMA_WRITE)).byte_count(), std::nullopt);
  EXPECT_EQ(completion(success(IBV_WC_BIND_MW)).byte_count(), std::nullopt);
}

TEST(Completion, ImmediateIsInHostOrderAndOnlyIfSent) {
  ibv_wc wc = success(IBV_WC_RECV);
  wc.imm_data = htonl(0x01020304);
  EXPECT_EQ(completion(wc).immediate(), std::nullopt);
  wc.wc_flags = IBV_WC_WITH_IMM;
  EXPECT_EQ(completion(wc).immediate(), 0x01020304u);
  wc.imm_data = 0;
  EXPECT_EQ(completion(wc).immediate(), 0u);
}

TEST(Completion, FailureKeepsFourFieldsAndNoMore) {
  const Completion failed = completion(failure());
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.id(), WrId{7});
  EXPECT_EQ(failed.status(), WorkStatus::retry_exceeded);
  EXPECT_EQ(failed.vendor_code(), 0x81u);
  EXPECT_EQ(failed.queue_pair(), QpNumber{0x11});
  EXPECT_EQ(failed.opcode(), std::nullopt);
  EXPECT_EQ(failed.byte_count(), std::nullopt);
  EXPECT_EQ(failed.immediate(), std::nullopt);
  EXPECT_EQ(failed.source(), std::nullopt);
  EXPECT_FALSE(failed.has_grh());
}

TEST(Completion, ErrorCarriesThoseFields) {
  const WorkError error = completion(failure()).error();
  EXPECT_EQ(error.status, WorkStatus::retry_exceeded);
  EXPECT_EQ(error.vendor_code, 0x81u);
  EXPECT_EQ(error.id, WrId{7});
  EXPECT_EQ(error.queue_pair, QpNumber{0x11});
}

TEST(Completion, SourceIsThatOfAReceive) {
  EXPECT_EQ(completion(success(IBV_WC_RECV)).source(), QpNumber{0x22});
  EXPECT_EQ(completion(success(IBV_WC_SEND)).source(), std::nullopt);
}

TEST(Completion, GlobalHeaderIsToldByItsFlag) {
  ibv_wc wc = success(IBV_WC_RECV);
  EXPECT_FALSE(completion(wc).has_grh());
  wc.wc_flags = IBV_WC_GRH;
  EXPECT_TRUE(completion(wc).has_grh());
}

}  // namespace
}  // namespace verbatim
