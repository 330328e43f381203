# SPDX-License-Identifier: MIT OR Apache-2.0
"""The lane `preload`: whole stacks on top of verbs, each with its own idea of how to use them."""
import re

from listeners import free_port
from programs import BUILD, LINKS, PRELOAD, environment, start

# All traffic must use the device: no shared memory, no TCP.
TRANSPORTS = ("rc", "ud")
# test of ucx_perftest: options. Few exchanges: on a busy machine each waits for the processor.
UCX = {
    "ucp_put_bw": ["-s 8", "-s 4096", "-s 1048576 -n 100"],
    "ucp_put_lat": ["-s 8 -n 100"],
    "ucp_get": ["-s 8 -n 200", "-s 8192 -n 200"],
    "ucp_fadd": ["-s 8 -n 50"],
    "ucp_cswap": ["-s 8 -n 50"],
    "tag_bw": ["-s 64", "-s 2048", "-s 65536", "-s 1048576 -n 100", "-s 2048 -U"],
    "tag_lat": ["-s 8 -n 100", "-s 8 -n 100 -E sleep"],
    "ucp_am_bw": ["-s 8", "-s 1024", "-s 65536"],
    "ucp_am_lat": ["-s 1024 -n 100"],
    "stream_bw": ["-s 4096"],
}
# It crashes in about one of a hundred runs if memory is written after it was returned.
REPEATED = ("ucp_put_bw", "-s 4096", 10)


def ucx_environment(link, transport):
    """UCX aborts if a datagram is not answered for 30 s, also if the whole machine stood still.
    With more than that, the time limit of the test decides, which knows how busy the machine is."""
    return environment(LD_PRELOAD=PRELOAD, VERBATIM_SOFT_LINK=link, UCX_TLS=f"{transport},self",
                       UCX_NET_DEVICES="soft0:1", UCX_UD_TIMEOUT="10m",
                       UCX_WARN_UNUSED_ENV_VARS="n")


def ucx(tests):
    for link in LINKS:
        for transport in TRANSPORTS:
            env = ucx_environment(link, transport)
            runs = [(test, options) for test, variants in UCX.items() for options in variants]
            if transport == "rc":
                runs += [REPEATED[:2]] * REPEATED[2]
            for test, options in runs:
                few = [] if "-n" in options.split() else ["-n", "500"]
                tests.pair(f"ucx_perftest {test} {options} ({transport}, {link})",
                           ["ucx_perftest", "-t", test, *options.split(), *few, "-w", "20"], env)


# -n: more than a small machine has processors. Ranks find each other through the loopback device.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4", "--mca",
          "oob_tcp_if_include", "lo", "--mca", "btl_openib_warn_no_device_params_found", "0"]
OVER_UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self"]
# Its own use of verbs. On an Ethernet port it connects through rdma_cm only.
OPENIB = ["--mca", "pml", "ob1", "--mca", "btl", "openib,self", "--mca", "btl_openib_allow_ib",
          "1", "--mca", "osc", "pt2pt"]


def mpi(tests):
    """The ranks of OpenMPI compare every byte that they receive."""
    program = BUILD / "tests/preload/preload_messages"
    for link in LINKS:
        ways = [(f"UCX {transport}", OVER_UCX, ucx_environment(link, transport))
                for transport in TRANSPORTS]
        if link == "ib":
            ways.append(("openib", OPENIB, environment(LD_PRELOAD=PRELOAD)))
        for how, options, env in ways:
            tests.lines(f"OpenMPI, four ranks ({how}, {link})",
                        *tests.run([*MPIRUN, *options, program], env, 400))


# Each test measures for this long, and something must move: longer than a processor is ever gone.
QPERF_S = 2
# A side that does not hear from the other one for this long fails.
QPERF_PATIENCE_S = 60
QPERF = ["rc_bi_bw", "uc_bi_bw", "ud_bi_bw", "rc_lat", "uc_lat", "ud_lat", "rc_rdma_read_bw",
         "rc_rdma_write_poll_lat", "ver_rc_fetch_add", "ver_rc_compare_swap"]


def qperf(tests):
    """Both sides send and receive at the same time. Each result of an atomic is compared."""
    for link in LINKS:
        env = environment(LD_PRELOAD=PRELOAD, VERBATIM_SOFT_LINK=link)
        port = free_port()
        server = start(["qperf", "--listen_port", port], env)
        client = ["qperf", "--listen_port", port, "localhost"]
        if not tests.listens(port, server):
            tests.add(f"qperf ({link})", "the server does not listen", tests.finish(server, 1)[1])
            continue
        # On Ethernet it names no address of the other end, unless it may use rdma_cm.
        judge = refused_path if link == "eth" else moved_data
        for test in QPERF:
            command = [*client, "--timeout", QPERF_PATIENCE_S, "--unify_units", "-v", "--time",
                       QPERF_S, test]
            for _ in range(50):
                status, output = tests.run(command, env)
                if not lost_reason(output):
                    break
            tests.add(f"qperf {test} ({link})", judge(status, output), output)
        tests.run([*client, "quit"], env)
        tests.finish(server)


def moved_data(status, output):
    """What is wrong if one of them sent or received nothing; otherwise empty."""
    figures = re.findall(r"^ +(\w*bw|msg_rate|latency) += +([\d.]+)", output, re.M)
    nothing = [name for name, figure in figures if float(figure) == 0]
    if status != 0 or not figures:
        return f"exit status {status}"
    return f"nothing for {', '.join(nothing)}" if nothing else ""


def lost_reason(output):
    """If both ends fail at once, qperf's client may read an empty reason from its server, or none,
    and end before it prints its own. This also happens without any RDMA device, and without us."""
    return re.fullmatch(r"\s*server(: *| failure *)\n\w+: *\s*", output)


def refused_path(status, output):
    refused = re.search("failed to (modify QP to RTR|create address handle)", output)
    return "" if status == 1 and refused else f"exit status {status}, and no reason given"
