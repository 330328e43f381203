// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/raw_verbs.hpp"

#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "support/soft_faults.hpp"
#include "verbatim/provider/soft.hpp"
#include "verbatim/provider/system.hpp"

namespace verbatim::test::raw {

namespace {

constexpr std::uint8_t kPort = 1;

template <class Object>
Owned<Object> own(Object* made, const char* verb, const Where& where) {
  if (made == nullptr) give_up(std::string{verb} + ": " + std::strerror(errno), where);
  return Owned<Object>{made};
}

/// An object that is not destroyed is leaked, and reported: the test is wrong, or has found
/// something.
void expect_gone(int error, const char* verb) {
  EXPECT_EQ(error, 0) << verb << ": " << std::strerror(error == -1 ? errno : error);
}

void require_done(int error, const char* what, const Where& where) {
  if (error != 0) give_up(std::string{what} + ": " + std::strerror(error), where);
}

ibv_port_attr port_of(ibv_context* context) {
  ibv_port_attr port{};
  require_done(verbs().query_port(context, kPort, &port), "query_port", Where::current());
  return port;
}

/// The last GID of the port; if there is one for an IPv4 address, that one.
ibv_gid_entry gid_of(ibv_context* context) {
  std::vector<ibv_gid_entry> entries(64);
  const ssize_t count = verbs().query_gid_table(context, entries.data(), entries.size());
  ibv_gid_entry found{};
  for (ssize_t i = 0; i < count; ++i)
    if (entries[static_cast<std::size_t>(i)].port_num == kPort)
      found = entries[static_cast<std::size_t>(i)];
  return found;
}

int post(ibv_qp* queue_pair, ibv_send_wr request, const Piece& piece) {
  ibv_sge element{piece.address, piece.bytes, piece.key};
  request.sg_list = &element;
  request.num_sge = piece.bytes == 0 ? 0 : 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* rejected = nullptr;
  return ibv_post_send(queue_pair, &request, &rejected);
}

ibv_send_wr request(std::uint64_t id, ibv_wr_opcode opcode) {
  ibv_send_wr made{};
  made.wr_id = id;
  made.opcode = opcode;
  return made;
}

}  // namespace

const Provider& verbs() { return on_soft_device() ? soft_provider() : system_provider(); }

void Destroy::operator()(ibv_context* object) const {
  expect_gone(verbs().close_device(object), "close_device");
}
void Destroy::operator()(ibv_pd* object) const {
  expect_gone(verbs().dealloc_pd(object), "dealloc_pd");
}
void Destroy::operator()(ibv_mr* object) const {
  expect_gone(verbs().dereg_mr(object), "dereg_mr");
}
void Destroy::operator()(ibv_comp_channel* object) const {
  expect_gone(verbs().destroy_comp_channel(object), "destroy_comp_channel");
}
void Destroy::operator()(ibv_cq* object) const {
  expect_gone(verbs().destroy_cq(object), "destroy_cq");
}
void Destroy::operator()(ibv_srq* object) const {
  expect_gone(verbs().destroy_srq(object), "destroy_srq");
}
void Destroy::operator()(ibv_qp* object) const {
  expect_gone(verbs().destroy_qp(object), "destroy_qp");
}
void Destroy::operator()(ibv_ah* object) const {
  expect_gone(verbs().destroy_ah(object), "destroy_ah");
}

Owned<ibv_context> open(Where where) {
  int count = 0;
  ibv_device** const list = verbs().get_device_list(&count);
  ibv_context* opened = nullptr;
  for (int i = 0; i < count && opened == nullptr; ++i)
    if (settings().device == list[i]->name) opened = verbs().open_device(list[i]);
  const int error = errno;
  if (list != nullptr) verbs().free_device_list(list);
  errno = error;
  return own(opened, "open_device", where);
}

Owned<ibv_pd> domain(ibv_context* context, Where where) {
  return own(verbs().alloc_pd(context), "alloc_pd", where);
}

Owned<ibv_comp_channel> channel(ibv_context* context, Where where) {
  return own(verbs().create_comp_channel(context), "create_comp_channel", where);
}

Owned<ibv_cq> completion_queue(ibv_context* context, int depth, ibv_comp_channel* channel,
                               Where where) {
  return own(verbs().create_cq(context, depth, nullptr, channel, 0), "create_cq", where);
}

Owned<ibv_mr> region(ibv_pd* domain, std::span<std::byte> bytes, unsigned access, Where where) {
  return own(verbs().reg_mr(domain, bytes.data(), bytes.size(), access), "reg_mr", where);
}

Owned<ibv_srq> shared_receive_queue(ibv_pd* domain, std::uint32_t requests, Where where) {
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = requests;
  wanted.attr.max_sge = 1;
  return own(verbs().create_srq(domain, &wanted), "create_srq", where);
}

ibv_qp* try_queue_pair(const QueuePairRecipe& recipe) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = recipe.sends;
  wanted.recv_cq = recipe.receives;
  wanted.srq = recipe.shared;
  wanted.cap.max_send_wr = recipe.requests;
  wanted.cap.max_recv_wr = recipe.shared == nullptr ? recipe.requests : 0;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_recv_sge = 2;
  wanted.qp_type = recipe.type;
  return verbs().create_qp(recipe.domain, &wanted);
}

Owned<ibv_qp> queue_pair(const QueuePairRecipe& recipe, Where where) {
  return own(try_queue_pair(recipe), "create_qp", where);
}

Address address_of(const ibv_qp* queue_pair) {
  return {.number = queue_pair->qp_num,
          .psn = 0,
          .lid = port_of(queue_pair->context).lid,
          .gid = gid_of(queue_pair->context).gid};
}

bool is_ethernet(ibv_context* context) {
  return port_of(context).link_layer == IBV_LINK_LAYER_ETHERNET;
}

ibv_ah_attr path_to(ibv_context* context, const Address& peer) {
  ibv_ah_attr path{};
  path.port_num = kPort;
  path.dlid = peer.lid;
  if (!is_ethernet(context)) return path;
  path.is_global = 1;
  path.grh.dgid = peer.gid;
  path.grh.sgid_index = static_cast<std::uint8_t>(gid_of(context).gid_index);
  path.grh.hop_limit = 64;
  return path;
}

Owned<ibv_ah> address_handle(ibv_pd* domain, const Address& peer, Where where) {
  ibv_ah_attr path = path_to(domain->context, peer);
  return own(verbs().create_ah(domain, &path), "create_ah", where);
}

int to_init(ibv_qp* queue_pair, const Settings& settings) {
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_INIT;
  wanted.port_num = kPort;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (queue_pair->qp_type == IBV_QPT_UD) {
    wanted.qkey = kQueueKey;
    mask |= IBV_QP_QKEY;
  } else {
    const unsigned possible = queue_pair->qp_type == IBV_QPT_UC ? unsigned{IBV_ACCESS_REMOTE_WRITE}
                                                                : ~unsigned{IBV_ACCESS_LOCAL_WRITE};
    wanted.qp_access_flags = settings.access & possible;
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  return verbs().modify_qp(queue_pair, &wanted, mask);
}

int to_ready_to_receive(ibv_qp* queue_pair, const Address& peer, const Settings& settings) {
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_RTR;
  int mask = IBV_QP_STATE;
  if (queue_pair->qp_type != IBV_QPT_UD) {
    wanted.ah_attr = path_to(queue_pair->context, peer);
    wanted.path_mtu = port_of(queue_pair->context).active_mtu;
    wanted.dest_qp_num = peer.number;
    wanted.rq_psn = peer.psn;
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  if (queue_pair->qp_type == IBV_QPT_RC) {
    wanted.max_dest_rd_atomic = settings.max_reads_in;
    wanted.min_rnr_timer = 1;
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  return verbs().modify_qp(queue_pair, &wanted, mask);
}

int to_ready_to_send(ibv_qp* queue_pair, const Settings& settings, std::uint32_t psn) {
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_RTS;
  wanted.sq_psn = psn;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (queue_pair->qp_type == IBV_QPT_RC) {
    wanted.timeout = settings.timeout;
    wanted.retry_cnt = settings.retries;
    wanted.rnr_retry = 7;
    wanted.max_rd_atomic = settings.max_reads_out;
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return verbs().modify_qp(queue_pair, &wanted, mask);
}

void connect(ibv_qp* queue_pair, const Address& peer, const Settings& settings, Where where) {
  require_done(to_init(queue_pair, settings), "modify_qp to INIT", where);
  require_done(to_ready_to_receive(queue_pair, peer, settings), "modify_qp to RTR", where);
  require_done(to_ready_to_send(queue_pair, settings), "modify_qp to RTS", where);
}

void connect(ibv_qp* left, ibv_qp* right, const Settings& settings, Where where) {
  connect(left, address_of(right), settings, where);
  connect(right, address_of(left), settings, where);
}

int change_state(ibv_qp* queue_pair, ibv_qp_state state) {
  ibv_qp_attr wanted{};
  wanted.qp_state = state;
  return verbs().modify_qp(queue_pair, &wanted, IBV_QP_STATE);
}

Piece local(const ibv_mr* region, std::size_t offset, std::size_t bytes) {
  return {reinterpret_cast<std::uintptr_t>(region->addr) + offset,
          static_cast<std::uint32_t>(bytes), region->lkey};
}

Piece remote(const ibv_mr* region, std::size_t offset, std::size_t bytes) {
  Piece piece = local(region, offset, bytes);
  piece.key = region->rkey;
  return piece;
}

int post_receive(ibv_qp* queue_pair, std::uint64_t id, const Piece& into) {
  ibv_sge element{into.address, into.bytes, into.key};
  ibv_recv_wr wanted{
      .wr_id = id, .next = nullptr, .sg_list = &element, .num_sge = into.bytes == 0 ? 0 : 1};
  ibv_recv_wr* rejected = nullptr;
  return ibv_post_recv(queue_pair, &wanted, &rejected);
}

int post_receive(ibv_srq* queue, std::uint64_t id, const Piece& into) {
  ibv_sge element{into.address, into.bytes, into.key};
  ibv_recv_wr wanted{
      .wr_id = id, .next = nullptr, .sg_list = &element, .num_sge = into.bytes == 0 ? 0 : 1};
  ibv_recv_wr* rejected = nullptr;
  return ibv_post_srq_recv(queue, &wanted, &rejected);
}

int post_send(ibv_qp* queue_pair, std::uint64_t id, const Piece& from) {
  return post(queue_pair, request(id, IBV_WR_SEND), from);
}

int post_write(ibv_qp* queue_pair, std::uint64_t id, const Piece& from, const Piece& to) {
  ibv_send_wr wanted = request(id, IBV_WR_RDMA_WRITE);
  wanted.wr.rdma.remote_addr = to.address;
  wanted.wr.rdma.rkey = to.key;
  return post(queue_pair, wanted, from);
}

int post_read(ibv_qp* queue_pair, std::uint64_t id, const Piece& into, const Piece& from) {
  ibv_send_wr wanted = request(id, IBV_WR_RDMA_READ);
  wanted.wr.rdma.remote_addr = from.address;
  wanted.wr.rdma.rkey = from.key;
  return post(queue_pair, wanted, into);
}

int post_fetch_add(ibv_qp* queue_pair, std::uint64_t id, const Piece& into, const Piece& at,
                   std::uint64_t add) {
  ibv_send_wr wanted = request(id, IBV_WR_ATOMIC_FETCH_AND_ADD);
  wanted.wr.atomic.remote_addr = at.address;
  wanted.wr.atomic.rkey = at.key;
  wanted.wr.atomic.compare_add = add;
  return post(queue_pair, wanted, into);
}

int post_datagram(ibv_qp* queue_pair, std::uint64_t id, const Piece& from, ibv_ah* to,
                  std::uint32_t number, ibv_wr_opcode opcode) {
  ibv_send_wr wanted = request(id, opcode);
  wanted.wr.ud.ah = to;
  wanted.wr.ud.remote_qpn = number;
  wanted.wr.ud.remote_qkey = kQueueKey;
  return post(queue_pair, wanted, from);
}

std::optional<ibv_wc> poll_within(ibv_cq* queue, std::chrono::nanoseconds patience) {
  ibv_wc found{};
  const bool came = eventually([&] { return ibv_poll_cq(queue, 1, &found) != 0; }, patience);
  if (!came) return std::nullopt;
  return found;
}

ibv_wc poll_one(ibv_cq* queue, Where where) {
  const auto found = poll_within(queue, kPatience);
  if (!found) give_up("no completion came", where);
  return *found;
}

ibv_wc poll_ok(ibv_cq* queue, Where where) {
  const ibv_wc found = poll_one(queue, where);
  if (found.status != IBV_WC_SUCCESS)
    give_up("a request failed with status " + std::to_string(found.status), where);
  return found;
}

bool is_readable(int fd, std::chrono::milliseconds patience) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, static_cast<int>(patience.count())) == 1;
}

Mapping::Mapping(std::size_t bytes, ibv_context* allocator) : allocator_(allocator) {
  void* at = allocator_ != nullptr
                 ? verbs().alloc_memory(allocator_, bytes, HugePages::off)
                 : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || at == nullptr) give_up("no memory", Where::current());
  bytes_ = {static_cast<std::byte*>(at), bytes};
}

void Mapping::fill(std::byte value) const { std::ranges::fill(bytes_, value); }

void Mapping::unmap() {
  if (bytes_.empty()) return;
  if (allocator_ != nullptr)
    expect_gone(verbs().free_memory(allocator_, bytes_.data(), bytes_.size()), "free_memory");
  else
    munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
}

}  // namespace verbatim::test::raw
