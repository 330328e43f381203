# SPDX-License-Identifier: MIT OR Apache-2.0
"""The lane `preload`: programs that do not use Verbatim, on its software device.

Each program with its options is one test. Most are pairs of a server and a client on this machine.
"""
import fcntl
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import verbs_exports
from gtest_report import SKIPPED, Case
from listeners import free_port
from preload_stacks import mpi, qperf, ucx
from programs import ALONE, BUILD, LIMIT_S, LINKS, PRELOAD, PROGRAM, Tests, environment, start

CANNOT = 77  # exit status of the virtual machine where it cannot run

# program: options. If a port is Ethernet, these programs need an address (-g).
PINGPONG = {
    "ibv_rc_pingpong": ["", "-c", "-e", "-e -c", "-N", "-N -c", "-N -e", "-t", "-c -s 1",
                        "-c -s 65536", "-c -s 1048576 -n 50", "-c -n 2000 -r 8"],
    "ibv_uc_pingpong": ["", "-c", "-e", "-c -s 65536"],
    "ibv_ud_pingpong": ["", "-c", "-e", "-c -s 1"],
    "ibv_srq_pingpong": ["", "-c", "-e", "-c -q 4 -r 100"],
}

# Programs that read the kernel's directories, and what they have to print.
LISTERS = {
    "ibstat": ["CA 'soft0'", "State: Active", "Physical state: LinkUp", "Rate: 100",
               "Port GUID: 0x0276620000000001"],
    "ibstatus": ["device 'soft0' port 1", r"state:\s+4: ACTIVE", r"rate:\s+100 Gb/sec",
                 r"default gid:\s+fe80:0000:0000:0000:0276:6200:0000:0001"],
    "grep -rH . /sys/class/infiniband": ["soft0/ports/1/link_layer", "soft0/ports/1/gids/0:fe80"],
}

FEW = ["-n", "200"]
SWEEP = "-a -n 10"
PERFTEST = {
    "ib_send_lat": ["", "-c UC", "-c UD", "-e", "-e -c UD", SWEEP, "-I 64", "-I 64 -s 64", "-D 1",
                    "--use-srq"],
    "ib_send_bw": ["", "-c UC", "-c UD", "-e", "-b", "-b -c UD", "-q 8", "-q 8 -c UC", SWEEP,
                   "-l 16 -n 1600", "-I 64 -s 64", "-D 1", "--use-srq"],
    "ib_write_lat": ["", "-c UC", SWEEP, "-I 64", "-I 64 -s 64", "-D 1"],
    "ib_write_bw": ["", "-c UC", "-b", "-q 8 -n 1000", "-q 8 -n 1000 -c UC", SWEEP, "-l 16 -n 1600",
                    "-I 64 -s 64", "-D 1", "-q 8 -b -l 16 -n 1600"],
    "ib_read_lat": ["", "-e", SWEEP, "-D 1"],
    "ib_read_bw": ["", "-e", "-b", "-q 8", SWEEP, "-l 16 -n 1600", "-D 1"],
    "ib_atomic_lat": ["-A FETCH_AND_ADD", "-A CMP_AND_SWAP", "-e", "-D 1"],
    "ib_atomic_bw": ["-A FETCH_AND_ADD", "-A CMP_AND_SWAP", "-b", "-q 8", "-l 16 -n 1600", "-D 1"],
}

# Features that we lack: the program reports that and ends, some only after the client connects.
REFUSED = [  # (command, a part of its output)
    ("ibv_xsrq_pingpong", "XRC"),
    ("ibv_rc_pingpong -o", "ODP"),
    ("ibv_rc_pingpong -j", "dm allocation"),
    ("ib_send_bw -F -R", "RDMA_CM"),
    ("ib_send_bw -F -c XRC", "XRC"),
    ("ib_write_bw -F -c DC", "QP"),
    ("ib_send_bw -F --odp", "MR"),
    ("ib_send_bw -F -g -c UD", "mcast|[Mm]ulticast"),
]


def one_program(tests):
    for link in LINKS:
        env = environment(LD_PRELOAD=PRELOAD, VERBATIM_SOFT_LINK=link)
        layer = {"ib": "InfiniBand", "eth": "Ethernet"}[link]
        status, output = tests.run(["ibv_devices"], env)
        tests.add(f"ibv_devices ({link})", "" if status == 0 and "soft0" in output else
                  f"exit status {status}, or no soft0", output)
        status, output = tests.run(["ibv_devinfo", "-v"], env)
        said = all(part in output for part in ("PORT_ACTIVE", layer, "VERBATIM", "GID[  0]"))
        tests.add(f"ibv_devinfo -v ({link})", "" if status == 0 and said else
                  f"exit status {status}, or not all of it", output)
        for program, parts in LISTERS.items():
            status, output = tests.run(program.split(), env)
            missing = [part for part in (*parts, layer) if not re.search(part, output)]
            tests.add(f"{program} ({link})", f"exit status {status}, missing: {missing}" if
                      status != 0 or missing else "", output)
        for library, how in ((PRELOAD, "preload"), (ALONE, "stand-alone")):
            env["LD_PRELOAD"] = str(library)
            for program in ("conventions", "cancelled", "no_memory", "discovery"):
                tests.lines(f"{program} ({how}, {link})",
                            *tests.run([BUILD / f"tests/preload/preload_{program}"], env))
    env = environment(LD_PRELOAD=PRELOAD, VERBATIM_SOFT_DEVICES=3)
    status, output = tests.run(["ibv_devices"], env)
    tests.add("ibv_devices, three devices", "" if status == 0 and "soft2" in output else
              "no soft2", output)
    status, output = tests.run(["ibstat", "-l"], env)
    tests.add("ibstat, three devices", "" if output == "soft0\nsoft1\nsoft2\n" else
              f"exit status {status}", output)
    env = environment(LD_PRELOAD=PRELOAD, VERBATIM_SOFT=0)
    status, output = tests.run(["ibv_devices"], env)
    tests.add("ibv_devices, device hidden", "soft0 is there" if "soft0" in output else "", output)
    status, output = tests.run(["ls", "/sys/class/infiniband"], env)
    tests.add("ls, device hidden", "soft0 is there" if "soft0" in output else "", output)


def sanitizer():
    """The runtime of the compiler's AddressSanitizer, which intercepts dlopen and open."""
    return subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True,
                          check=True).stdout.strip()


def loaders(tests):
    """Programs that load libibverbs themselves, with each of our libraries in each way."""
    programs = BUILD / "tests/preload"
    for env, how in (({"LD_PRELOAD": PRELOAD}, "preload"),
                     ({"LD_LIBRARY_PATH": ALONE.parent}, "stand-alone, LD_LIBRARY_PATH"),
                     ({"LD_PRELOAD": ALONE}, "stand-alone, LD_PRELOAD")):
        tests.lines(f"dlopen and dlvsym ({how})",
                    *tests.run([programs / "preload_loader"], environment(**env)))
    # Other libraries intercept functions, too: before us, and after us.
    outer = programs / "libpreload_outer.so"
    for libraries in ([PRELOAD], [outer, PRELOAD], [PRELOAD, outer], [sanitizer(), PRELOAD]):
        env = environment(LD_PRELOAD=":".join(map(str, libraries)), ASAN_OPTIONS="detect_leaks=0")
        how = ", ".join(Path(library).name for library in libraries)
        tests.lines(f"lookups ({how})", *tests.run([programs / "preload_lookup"], env))
    for command in (["ibv_devinfo"], ["ib_write_bw", "--version"]):
        status, output = tests.run(command, environment(LD_LIBRARY_PATH=ALONE.parent))
        # perftest prints its version, and exits with 1.
        tests.add(f"{' '.join(command)} (stand-alone)", "" if status in (0, 1) and
                  "symbol lookup" not in output else f"exit status {status}", output)
    tests.pair("ib_write_bw (stand-alone)", ["ib_write_bw", "-F"],
               environment(LD_LIBRARY_PATH=ALONE.parent))


def pairs(tests):
    for link in LINKS:
        env = environment(LD_PRELOAD=PRELOAD, VERBATIM_SOFT_LINK=link)
        for programs, always in ((PINGPONG, ["-g", "0"] if link == "eth" else []),
                                 (PERFTEST, ["-F"])):
            for program, variants in programs.items():
                for options in variants:
                    # Only a few, because on a busy machine each exchange waits for the processor.
                    few = [] if "-n" in options.split() or "-D" in options.split() else FEW
                    tests.pair(f"{program} {options} ({link})",
                               [program, *options.split(), *always, *few], env)
    env = environment(LD_PRELOAD=PRELOAD, VERBATIM_SOFT_LINK="eth")
    tests.pair("ibv_rc_pingpong -c -g 1 (eth)", ["ibv_rc_pingpong", "-c", "-g", "1"], env)
    for more in ({"VERBATIM_SOFT_MEMORY": "relay"}, {"VERBATIM_SOFT_MODE": "deferred"}):
        env = environment(LD_PRELOAD=PRELOAD, **more)
        how = " ".join(more.values())
        tests.pair(f"ibv_rc_pingpong -c ({how})", ["ibv_rc_pingpong", "-c", "-n", "200"], env)
        tests.pair(f"ib_write_bw ({how})", ["ib_write_bw", "-F", "-n", "200"], env)


def refused(tests):
    env = environment(LD_PRELOAD=PRELOAD)
    for command, said in REFUSED:
        port = free_port()
        server = start([*command.split(), "-p", port], env)
        results = []
        if tests.listens(port, server):
            results = [tests.run([*command.split(), "-p", port, "localhost"], env)]
        results.append(tests.finish(server))
        output = "".join(text for _, text in results)
        # The status of a signal is negative. None means that it had to be ended.
        fine = all(status is not None and status > 0 for status, _ in results)
        tests.add(f"{command} fails cleanly", "" if fine and re.search(said, output) else
                  f"exit status {[status for status, _ in results]}", output)


def cpu_seconds(process):
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_traffic(client, limit_s):
    """Until the client has worked for half a second: connecting takes much less. Counts the looks
    that find it at work, because a processor that is taken away may look like work, but only once.
    """
    deadline, spent, worked = time.monotonic() + limit_s, 0.0, 0
    while worked < 50 and client.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)  # wait: between two looks
        before, spent = spent, cpu_seconds(client)
        worked += spent > before


def killed_peer(tests):
    """After kill -9 of the server, the client gets error completions and reports them."""
    env = environment(LD_PRELOAD=PRELOAD)
    # No ping-pong programs: as on hardware, a side that waits to receive learns nothing.
    for words in ("ib_write_bw", "ib_read_bw", "ib_read_bw -e", "ib_send_bw", "ib_send_bw -e"):
        command = [*words.split(), "-F", "-n", "5000000"]
        name = f"{words}: the server is killed"
        port = free_port()
        server = start([*command, "-p", port], env)
        if not tests.listens(port, server):
            tests.add(name, "the server does not listen", tests.finish(server, 1)[1])
            continue
        client = start([*command, "-p", port, "localhost"], env)
        wait_for_traffic(client, tests.lane.patience(LIMIT_S))
        server.kill()
        tests.finish(server)
        status, output = tests.finish(client)
        fine = status is not None and status > 0 and re.search(
            r"Failed status|transport retry|Completion with error", output)
        tests.add(name, "" if fine else f"exit status of the client {status}", output)


# What they print must not depend on other programs of this machine. The kernel may list a thread
# for a moment after it was joined; one that stays is seen.
BYSTANDERS = {
    "bash": ["bash", "-c", "trap 'echo bye' EXIT; echo one | (read word; echo $word); "
             "grep -E '^(Threads|Sig[BIC])' /proc/self/status; ls /; exit 5"],
    "python3": ["python3", "-c", "import os, subprocess, threading, time\n"
                "threads = [threading.Thread(target=sum, args=([1, 2],)) for _ in range(3)]\n"
                "[each.start() for each in threads], [each.join() for each in threads]\n"
                "print(subprocess.run(['echo', 'child'], capture_output=True).stdout)\n"
                "end = time.monotonic() + 30\n"
                "while len(os.listdir('/proc/self/task')) > 1 and time.monotonic() < end: pass\n"
                "wanted = 'Thre SigB SigI SigC'\n"
                "print([line for line in open('/proc/self/status') if line[:4] in wanted])\n"
                "raise SystemExit(6)"],
    "a C++ program": [BUILD / "tests/preload/preload_bystander"],
}
# Calls libibverbs: first not for devices, then for devices.
LATE = """
import ctypes, os
verbs = ctypes.CDLL('libibverbs.so.1')
verbs.ibv_wc_status_str(0)
verbs.ibv_fork_init()
place = os.environ['VERBATIM_SOFT_DIR']
print(len(os.listdir('/proc/self/task')), os.path.exists(place))
get_list, open_device = verbs.ibv_get_device_list, verbs.ibv_open_device
get_list.restype, open_device.restype = ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
open_device.argtypes = [ctypes.c_void_p]
open_device(get_list(None)[0])
print(os.path.exists(place))
"""


def bystanders(tests):
    """Programs without RDMA are not affected, whatever the environment says about the device."""
    with tempfile.TemporaryDirectory() as place:
        shared = Path(place, "verbatim")
        full = {"VERBATIM_SOFT": 1, "VERBATIM_SOFT_DEVICES": 8, "VERBATIM_SOFT_LINK": "eth",
                "VERBATIM_SOFT_DIR": shared, "VERBATIM_SOFT_MEMORY": "relay",
                "VERBATIM_SOFT_MODE": "deferred", "VERBATIM_SOFT_SEED": 42,
                "VERBATIM_SOFT_FAULTS": "rnr@9x2;call@3=ENOMEM"}
        for name, command in BYSTANDERS.items():
            before = tests.run(command, environment())
            for library, how in ((PRELOAD, "preload"), (ALONE, "stand-alone")):
                after = tests.run(command, environment(LD_PRELOAD=library, **full))
                problem = "" if after == before else f"without it:\n{before}\nwith it:\n{after}"
                problem = problem or (f"it made {shared}" if shared.exists() else "")
                tests.add(f"{name} notices nothing ({how})", problem)
        del full["VERBATIM_SOFT_FAULTS"]
        for library, how in ((PRELOAD, "preload"), (ALONE, "stand-alone")):
            env = environment(LD_PRELOAD=library, **full)
            status, output = tests.run(["python3", "-c", LATE], env)
            said = (status, output) == (0, "1 False\nTrue\n")
            tests.add(f"nothing happens before the first list of devices ({how})",
                      "" if said else f"exit status {status}", output)


def command_line(tests):
    words = ["a", "--", "", "c d", "--help", "[x,y]"]
    status, output = tests.run([PROGRAM, "preload", "--", "printf", "<%s>", *words], environment())
    tests.add("verbatim preload hands on every word", "" if (status, output) == (
        0, "".join(f"<{word}>" for word in words)) else f"exit status {status}", output)
    for command, wanted in ((["sh", "-c", "exit 9"], 9), (["/nonexistent"], 127),
                            (["/etc/passwd"], 126)):
        status, output = tests.run([PROGRAM, "preload", "--", *command], environment())
        tests.add(f"verbatim preload -- {' '.join(command)}", "" if status == wanted else
                  f"exit status {status}, not {wanted}", output)
    env = environment(LD_PRELOAD=ALONE)
    status, output = tests.run([PROGRAM, "preload", "--", "sh", "-c", "echo $LD_PRELOAD"], env)
    tests.add("verbatim preload keeps what was preloaded",
              "" if output == f"{PRELOAD}:{ALONE}\n" else "it does not", output)
    with tempfile.TemporaryDirectory() as place:
        status, output = tests.run(["cmake", "--install", BUILD, "--prefix", place, "--component",
                                    "preload"], environment())
        installed = Path(place, "bin/verbatim")
        for options in ([], ["--stand-alone"]):
            status, output = tests.run([installed, "preload", *options, "--", "ibv_devices"],
                                       environment())
            tests.add(f"installed verbatim preload {' '.join(options)}",
                      "" if status == 0 and "soft0" in output else f"exit status {status}", output)
        for library in Path(place).rglob("*.so*"):
            library.unlink()
        status, output = tests.run([installed, "preload", "--", "ibv_devices"], environment())
        tests.add("verbatim preload without its library", "" if status == 125 else
                  f"exit status {status}", output)


def beside_real(tests):
    """Our devices beside one of the kernel's, which the virtual machine has."""
    guest = Path("tests/preload/guest.sh")
    limit_s = tests.lane.patience(600)
    status, output = tests.run(["tools/vm/run", f"--timeout={limit_s:.0f}", "--", guest, PRELOAD,
                                BUILD / "tests/preload/preload_conventions"], environment(), 700)
    if status == CANNOT:
        reason = (output.strip().splitlines() or ["no reason given"])[-1]
        tests.lane.add(Case("beside a real device", SKIPPED, reason))
    else:
        tests.lines("beside a real device", status, output)


def leftovers(tests):
    """The last process removes all shared memory, including that of killed processes."""
    tests.run(["ibv_devinfo"], environment(LD_PRELOAD=PRELOAD))
    place = Path(f"/dev/shm/verbatim-{os.geteuid()}")
    # Other programs may use the device: a process holds a lock on its file while it is alive.
    left = [file for file in sorted(place.glob("p*")) if is_free(file)]
    tests.add("nothing is left in /dev/shm", f"{left}" if left else "")


def is_free(file):
    try:
        with file.open("r+") as opened:
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError:  # The lock is held, or the file has gone meanwhile.
        return False


def preload(lane):
    """Debian's verbs programs, and others, on soft0 through LD_PRELOAD."""
    lane.build("release", "preload_tests")
    tests = Tests(lane)
    for check, problems in verbs_exports.check_all(BUILD / "lib"):
        tests.add(check, "\n".join(problems))
    for group in (one_program, loaders, command_line, bystanders, refused, killed_peer, pairs,
                  ucx, mpi, qperf, beside_real, leftovers):
        begin = time.monotonic()
        group(tests)
        print(f"{lane.name}: {group.__name__.replace('_', ' ')}, {time.monotonic() - begin:.0f} s")
