// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/advice.hpp"

#include <cerrno>

namespace verbatim::detail {
namespace {

constexpr Advice kAdvice[] = {
    // ---- Arguments and limits ----
    {Errc::invalid_argument, 0, "ibv_modify_qp", "state",
     "a queue pair goes RESET, INIT, RTR, RTS; from any of them to ERR, and back to RESET"},
    {Errc::invalid_argument, 0, "ibv_reg_mr", "access",
     "remote_write and remote_atomic need local_write as well; a length of 0 is refused"},
    {Errc::invalid_argument, 0, "ibv_modify_qp", "",
     "the attributes do not fit the change of state, or the path is wrong (GID index, port)"},
    {Errc::invalid_argument, ENAMETOOLONG, "", "soft directory",
     "the path is too long for a file: set VERBATIM_SOFT_DIR to a shorter one"},
    {Errc::limit_exceeded, 0, "", "completion queue depth",
     "the completion queue must hold everything that its queue pairs can have in flight: make it "
     "deeper, or let it grow (CompletionQueueGrowth::resize)"},

    // ---- Things that do not exist ----
    {Errc::not_found, 0, "", "port", "port numbers start at 1"},
    {Errc::not_found, 0, "", "partition_key",
     "the subnet manager did not make this port a member of that partition"},
    {Errc::not_found, 0, "", "gid_index",
     "the GID table has no such entry, or it is empty: `rdma link`, `show_gids`"},
    {Errc::not_found, 0, "numa_node", "",
     "the system does not say where the device is attached, as in most virtual machines"},
    {Errc::not_found, 0, "numa_available", "",
     "libnuma.so.1 is not installed, or the kernel has no NUMA"},
    {Errc::not_found, 0, "", "host",
     "the host is unknown: check its spelling, /etc/hosts and the name server"},
    {Errc::not_found, EADDRNOTAVAIL, "", "",
     "no interface of this machine has this address: `ip address` lists them, and 0.0.0.0 or [::] "
     "stands for all"},
    {Errc::not_found, ENETUNREACH, "", "",
     "no route leads to that network: check the interface (`ip link`) and `ip route`"},
    {Errc::not_found, EHOSTUNREACH, "", "",
     "the host does not answer: it is down, or a firewall blocks it"},
    {Errc::not_found, ENOENT, "", "soft directory",
     "the directory above it does not exist: create it, or set VERBATIM_SOFT_DIR to another"},
    {Errc::not_found, ENOTDIR, "", "soft directory",
     "a part of the path is a file: set VERBATIM_SOFT_DIR to a directory"},

    // ---- Rights ----
    {Errc::permission_denied, 0, "ibv_reg_mr", "",
     "the memory is mapped read-only, and the region asks for local_write: use "
     "register_read_only()"},
    {Errc::permission_denied, 0, "", "access",
     "the region or the queue pair was created without that right"},
    {Errc::permission_denied, 0, "", "bind",
     "ports below 1024 are for privileged programs: choose a higher one, or give the program "
     "CAP_NET_BIND_SERVICE"},
    {Errc::permission_denied, EROFS, "", "soft directory",
     "the software device's directory is on a read-only file system: set VERBATIM_SOFT_DIR to a "
     "writable directory, or give the container a /dev/shm"},
    {Errc::permission_denied, EACCES, "", "soft directory",
     "this user may not write there: set VERBATIM_SOFT_DIR to a directory of its own"},
    {Errc::permission_denied, 0, "soft directory", "",
     "the software device keeps its files only in a directory that belongs to this user and is "
     "closed to others (mode 0700): remove what is there, or set VERBATIM_SOFT_DIR to another"},

    // ---- Resources ----
    {Errc::out_of_resources, 0, "pthread_create", "",
     "the user has too many threads: raise the limit with `ulimit -u`"},
    {Errc::out_of_resources, 0, "soft directory", "processes",
     "too many processes use the software device's directory at once: end some, or set "
     "VERBATIM_SOFT_DIR to another directory for processes that do not talk to these"},
    {Errc::out_of_resources, 0, "soft segment", "",
     "the queues of this process fill its segment: ask for shallower queues, or fewer"},
    {Errc::out_of_resources, ENOBUFS, "", "", "the kernel has no memory for more network buffers"},
    {Errc::out_of_resources, EFBIG, "", "",
     "the process may not make files of that size, and the software device keeps its memory in "
     "files: raise the limit with `ulimit -f`"},
    {Errc::out_of_resources, EDQUOT, "", "",
     "the user's quota on the file system is used up: remove files, or raise the quota"},
    {Errc::out_of_resources, EAGAIN, "", "",
     "the system is temporarily short of it, or a limit of the user is reached: try again, then "
     "check `ulimit -a`"},

    // ---- Unsupported ----
    {Errc::unsupported, 0, "dlopen", "",
     "rdma-core is too old and lacks this function: upgrade it"},
    {Errc::unsupported, 0, "ibv_reg_dmabuf_mr", "",
     "dmabuf regions need kernel 5.12 or later and an adapter that supports them"},
    {Errc::unsupported, 0, "connect", "keepalive",
     "the peer's endpoint does not allow remote writes, and a keepalive is one of zero bytes: give "
     "the peer's channel Access::remote_write, or do not use the keepalive"},
    {Errc::unsupported, 0, "", "type",
     "the device has no queue pairs of this type (iWARP needs rdma_cm, EFA has only SRD and UD)"},
    {Errc::unsupported, EAFNOSUPPORT, "", "",
     "this kernel has no IPv6 (or IPv4): use an address of the other kind"},

    // ---- Listening and connecting ----
    {Errc::busy, EADDRINUSE, "", "",
     "another socket listens at this address and port: end that program (`ss -ltnp` names it), or "
     "choose another port"},
    {Errc::busy, 0, "", "completion queue depth",
     "the queue pairs on the queue need more: destroy some first"},
    {Errc::timed_out, ECONNREFUSED, "", "",
     "no program listens at this address: start the other side, and compare host and port"},
    {Errc::timed_out, ETIMEDOUT, "", "connect",
     "the host does not answer at all: it is down, the address is wrong, or a firewall drops the "
     "packets"},
    {Errc::timed_out, 0, "", "connection", "no client came: start it, and compare host and port"},
    {Errc::timed_out, 0, "", "host", "the name server does not answer: use a numeric address"},
    {Errc::timed_out, 0, "", "the peer's endpoint",
     "the peer connected, but sent too little: it is another kind of program, or is stopped"},
    {Errc::timed_out, 0, "", "the peer's ready record",
     "the peer has our endpoint, but did not connect: its own error says why"},
    {Errc::timed_out, 0, "", "the peer's receive",
     "the peer has not taken the message: it may have posted no receive (max_rnr_retries is "
     "unlimited, so the device retries for ever), or it is unreachable"},
    {Errc::timed_out, 0, "", "the peer's done",
     "the peer still uses the channel, and has not closed it: close both sides"},
    {Errc::closed, 0, "", "the peer's endpoint",
     "the peer ended the connection before it sent its endpoint: it failed, or refused; see its "
     "own error"},
    {Errc::closed, 0, "", "the peer's ready record",
     "the peer has our endpoint and ended the connection: it cannot connect; see its own error"},
    {Errc::closed, ECONNRESET, "", "", "the peer's program ended, or cut the connection"},
    {Errc::closed, EPIPE, "", "", "the peer's program ended, or cut the connection"},
    {Errc::closed, ECONNABORTED, "", "", "the connection was cut on this side of the network"},

    // ---- Received bytes ----
    {Errc::malformed, 0, "parse_fault_plan", "",
     "the plan (VERBATIM_SOFT_FAULTS) is wrong: it consists of items like drop@17x3, delay@5=2ms, "
     "rnr@9x2, "
     "fail@4=12, port_down@30=5ms, overrun@6, remove@99 or call@3=ENOMEM, separated by ;"},
    {Errc::malformed, 0, "", "version",
     "the peer runs a release with another version of the record: run the same on both sides"},
    {Errc::malformed, 0, "", "frame kind",
     "the peer runs another release, or is at another step: run the same on both sides"},
    {Errc::malformed, 0, "", "magic",
     "these bytes are not an endpoint: are both sides at the same place in the stream?"},
    {Errc::malformed, 0, "", "length", "the record is truncated, or bytes follow it"},

    // ---- Two endpoints ----
    {Errc::incompatible, 0, "", "type", "one side is RC, UC or UD and the other is not"},
    {Errc::incompatible, 0, "", "transport",
     "one side is on the built-in software device, the other on a real one; VERBATIM_DEVICE "
     "chooses"},
    {Errc::incompatible, 0, "", "fabric_id",
     "both sides are on software devices, but not on the same fabric: give both the same "
     "VERBATIM_SOFT_DIR"},
    {Errc::incompatible, 0, "", "link_layer", "one port is InfiniBand, the other Ethernet"},
    {Errc::incompatible, 0, "", "partition_key",
     "the ports are in different partitions, or both are only limited members of the same one"},
    {Errc::incompatible, 0, "", "gid",
     "the ports have no kind of address in common: both need RoCEv2 with IPv4, both RoCEv2 with "
     "IPv6, or both RoCEv1; an interface without an IP address has only a link-local one"},
    {Errc::incompatible, 0, "", "lid",
     "a port has no LID: no subnet manager has configured it (start opensm somewhere)"},
    {Errc::incompatible, 0, "", "mtu", "the ports' MTUs differ: set the same on both"},
    {Errc::incompatible, 0, "", "nonce",
     "the peer was restarted or its queue pair recycled: exchange endpoints again"},

    // ---- Drivers ----
    {Errc::driver, EIO, "", "", "the device or its firmware failed: `dmesg | tail` may say how"},
    {Errc::driver, ENXIO, "", "", "the device is gone, or its driver was unloaded: open it again"},
};

}  // namespace

std::span<const Advice> advice() noexcept { return kAdvice; }

}  // namespace verbatim::detail
