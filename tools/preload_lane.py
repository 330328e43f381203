# SPDX-License-Identifier: MIT OR Apache-2.0
"""The lane `preload`: programs that know nothing of Verbatim, on its software device.

Each program with its options is one test. Most come in pairs, a server and a client on this
machine. Every process has a time limit, and none outlives its test.
"""
import fcntl
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import verbs_exports
from gtest_report import FAILED, PASSED, SKIPPED, Case, tail
from lane import end, running
from listeners import free_port, listens

BUILD = Path("build/release").absolute()
PRELOAD = BUILD / "lib/libverbatim-preload.so"
ALONE = BUILD / "lib/verbatim/libibverbs.so.1"
PROGRAM = BUILD / "bin/verbatim"
LIMIT_S = 40  # for one process
LINKS = ("ib", "eth")
CANNOT = 77  # exit status of the virtual machine where it cannot run

# program: options. Where a port is Ethernet, these programs want to be told an address (-g).
PINGPONG = {
    "ibv_rc_pingpong": ["", "-c", "-e", "-e -c", "-N", "-N -c", "-N -e", "-t", "-c -s 1",
                        "-c -s 65536", "-c -s 1048576 -n 50", "-c -n 2000 -r 8"],
    "ibv_uc_pingpong": ["", "-c", "-e", "-c -s 65536"],
    "ibv_ud_pingpong": ["", "-c", "-e", "-c -s 1"],
    "ibv_srq_pingpong": ["", "-c", "-e", "-c -q 4 -r 100"],
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

# What we do not have: the program says so and ends, some of them when the client is there.
REFUSED = [  # (command, a part of what it says)
    ("ibv_xsrq_pingpong", "XRC"),
    ("ibv_rc_pingpong -o", "ODP"),
    ("ibv_rc_pingpong -j", "dm allocation"),
    ("ib_send_bw -F -R", "RDMA_CM"),
    ("ib_send_bw -F -c XRC", "XRC"),
    ("ib_write_bw -F -c DC", "QP"),
    ("ib_send_bw -F --odp", "MR"),
    ("ib_send_bw -F -g -c UD", "mcast|[Mm]ulticast"),
]


def environment(**more):
    """Ours is what this lane says it is, not what the caller's shell has."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VERBATIM_")}
    return kept | {"LC_ALL": "C"} | {name: str(value) for name, value in more.items()}


def start(command, env):
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, env=env,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    running.add(process)
    return process


def finish(process, limit_s=LIMIT_S):
    """(exit status, output); the status is None for one that had to be ended."""
    try:
        output, status = process.communicate(timeout=limit_s)[0], process.returncode
    except subprocess.TimeoutExpired:
        output, status = end(process) + f"\nno end after {limit_s} s", None
    running.discard(process)
    return status, output


def run(command, env, limit_s=LIMIT_S):
    return finish(start(command, env), limit_s)


class Tests:
    """Adds the outcome of each test to the lane, and what was said to its log."""

    def __init__(self, lane):
        self.lane, self.last = lane, time.monotonic()

    def add(self, name, problem, output=""):
        took_s, self.last = time.monotonic() - self.last, time.monotonic()
        with self.lane.log.open("a") as log:
            log.write(f"== {name}: {problem or 'passed'}, {took_s:.2f} s\n{output}\n")
        verdict = FAILED if problem else PASSED
        self.lane.add(Case(name, verdict, f"{tail(output)}\n{problem}" if problem else ""))

    def lines(self, name, status, output):
        """A program that says "ok" or "FAIL" of each of its checks."""
        checks = re.findall(r"^(ok|FAIL) (.*)$", output, re.M)
        for verdict, what in checks:
            self.add(f"{name}: {what}", "" if verdict == "ok" else what)
        failed = any(verdict == "FAIL" for verdict, _ in checks)
        if not checks or (status != 0) != failed:
            self.add(name, f"exit status {status}", output)

    def pair(self, name, command, env):
        """A server and a client, both of which have to end well."""
        port = free_port()
        server = start([*command, "-p", port], env)
        if not listens(port, server):
            return self.add(name, "the server does not listen", finish(server, 1)[1])
        client_status, client_output = run([*command, "-p", port, "localhost"], env)
        status, output = finish(server)
        problem = ""
        if client_status != 0 or status != 0:
            problem = f"exit status of the client {client_status}, of the server {status}"
        if re.search(r"error|fail|mismatch|invalid data", client_output + output, re.I):
            problem = problem or "it ends with 0, and speaks of an error"
        return self.add(name, problem, client_output + output)


def one_program(tests):
    for link in LINKS:
        env = environment(LD_PRELOAD=PRELOAD, VERBATIM_SOFT_LINK=link)
        layer = {"ib": "InfiniBand", "eth": "Ethernet"}[link]
        status, output = run(["ibv_devices"], env)
        tests.add(f"ibv_devices ({link})", "" if status == 0 and "soft0" in output else
                  f"exit status {status}, or no soft0", output)
        status, output = run(["ibv_devinfo", "-v"], env)
        said = all(part in output for part in ("PORT_ACTIVE", layer, "VERBATIM", "GID[  0]"))
        tests.add(f"ibv_devinfo -v ({link})", "" if status == 0 and said else
                  f"exit status {status}, or not all of it", output)
        for library, how in ((PRELOAD, "preload"), (ALONE, "stand-alone")):
            env["LD_PRELOAD"] = str(library)
            tests.lines(f"conventions ({how}, {link})",
                        *run([BUILD / "tests/preload/preload_conventions"], env))
    env = environment(LD_PRELOAD=PRELOAD, VERBATIM_SOFT_DEVICES=3)
    status, output = run(["ibv_devices"], env)
    tests.add("ibv_devices, three devices", "" if status == 0 and "soft2" in output else
              "no soft2", output)
    env = environment(LD_PRELOAD=PRELOAD, VERBATIM_SOFT=0)
    status, output = run(["ibv_devices"], env)
    tests.add("ibv_devices, device hidden", "soft0 is there" if "soft0" in output else "", output)


def loaders(tests):
    """A program that loads libibverbs itself, by both ways to put the stand-alone one there."""
    loader = BUILD / "tests/preload/preload_loader"
    for env, how in (({"LD_LIBRARY_PATH": ALONE.parent}, "LD_LIBRARY_PATH"),
                     ({"LD_PRELOAD": ALONE}, "LD_PRELOAD")):
        tests.lines(f"dlopen and dlvsym ({how})", *run([loader], environment(**env)))
    for command in (["ibv_devinfo"], ["ib_write_bw", "--version"]):
        status, output = run(command, environment(LD_LIBRARY_PATH=ALONE.parent))
        # perftest says its version, and ends with 1.
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
                    # Few: on a busy machine each exchange waits for a turn of the processor.
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
        if listens(port, server):
            results = [run([*command.split(), "-p", port, "localhost"], env, 10)]
        results.append(finish(server, 10))
        output = "".join(text for _, text in results)
        # A signal's status is negative; None had to be ended.
        fine = all(status is not None and status > 0 for status, _ in results)
        tests.add(f"{command} fails cleanly", "" if fine and re.search(said, output) else
                  f"exit status {[status for status, _ in results]}", output)


def cpu_seconds(process):
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def killed_peer(tests):
    """After kill -9 of the server the client gets error completions, and says so."""
    env = environment(LD_PRELOAD=PRELOAD)
    # Not programs that play ping-pong: one that waits for its turn is not told, as on hardware.
    for words in ("ib_write_bw", "ib_read_bw", "ib_read_bw -e", "ib_send_bw", "ib_send_bw -e"):
        command = [*words.split(), "-F", "-n", "5000000"]
        name = f"{words}: the server is killed"
        port = free_port()
        server = start([*command, "-p", port], env)
        if not listens(port, server):
            tests.add(name, "the server does not listen", finish(server, 1)[1])
            continue
        client = start([*command, "-p", port, "localhost"], env)
        # In the middle of it, it has worked for a while; connecting takes next to nothing.
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and client.poll() is None and cpu_seconds(client) < 0.5:
            time.sleep(0.01)  # wait: between two looks
        server.kill()
        finish(server)
        status, output = finish(client)
        fine = status is not None and status > 0 and re.search(
            r"Failed status|transport retry|Completion with error", output)
        tests.add(name, "" if fine else f"exit status of the client {status}", output)


BYSTANDERS = {
    "bash": ["bash", "-c", "trap 'echo bye' EXIT; echo one | (read word; echo $word); "
             "grep -E '^(Threads|Sig[BIC])' /proc/self/status; ls /dev/shm; exit 5"],
    "python3": ["python3", "-c", "import subprocess, threading\n"
                "threads = [threading.Thread(target=sum, args=([1, 2],)) for _ in range(3)]\n"
                "[each.start() for each in threads], [each.join() for each in threads]\n"
                "print(subprocess.run(['echo', 'child'], capture_output=True).stdout)\n"
                "wanted = 'Thre SigB SigI SigC'\n"
                "print([line for line in open('/proc/self/status') if line[:4] in wanted])\n"
                "raise SystemExit(6)"],
    "a C++ program": [BUILD / "tests/preload/preload_bystander"],
}
# Calls libibverbs, but not for devices; and then for devices.
LATE = """
import ctypes, os, sys
verbs = ctypes.CDLL(None if sys.argv[1] == 'linked' else 'libibverbs.so.1')
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
    """Programs without RDMA notice nothing, whatever the environment says of the device."""
    with tempfile.TemporaryDirectory() as place:
        shared = Path(place, "verbatim")
        full = {"VERBATIM_SOFT": 1, "VERBATIM_SOFT_DEVICES": 8, "VERBATIM_SOFT_LINK": "eth",
                "VERBATIM_SOFT_DIR": shared, "VERBATIM_SOFT_MEMORY": "relay",
                "VERBATIM_SOFT_MODE": "deferred", "VERBATIM_SOFT_SEED": 42,
                "VERBATIM_SOFT_FAULTS": "rnr@9x2;call@3=ENOMEM"}
        for name, command in BYSTANDERS.items():
            before = run(command, environment())
            for library, how in ((PRELOAD, "preload"), (ALONE, "stand-alone")):
                after = run(command, environment(LD_PRELOAD=library, **full))
                problem = "" if after == before else f"without it:\n{before}\nwith it:\n{after}"
                problem = problem or (f"it made {shared}" if shared.exists() else "")
                tests.add(f"{name} notices nothing ({how})", problem)
        del full["VERBATIM_SOFT_FAULTS"]
        env = environment(LD_PRELOAD=ALONE, **full)
        status, output = run(["python3", "-c", LATE, "loaded"], env)
        tests.add("nothing happens before the first list of devices",
                  "" if (status, output) == (0, "1 False\nTrue\n") else f"exit status {status}",
                  output)


def command_line(tests):
    words = ["a", "--", "", "c d", "--help", "[x,y]"]
    status, output = run([PROGRAM, "preload", "--", "printf", "<%s>", *words], environment())
    tests.add("verbatim preload hands on every word", "" if (status, output) == (
        0, "".join(f"<{word}>" for word in words)) else f"exit status {status}", output)
    for command, wanted in ((["sh", "-c", "exit 9"], 9), (["/nonexistent"], 127),
                            (["/etc/passwd"], 126)):
        status, output = run([PROGRAM, "preload", "--", *command], environment())
        tests.add(f"verbatim preload -- {' '.join(command)}", "" if status == wanted else
                  f"exit status {status}, not {wanted}", output)
    env = environment(LD_PRELOAD=ALONE)
    status, output = run([PROGRAM, "preload", "--", "sh", "-c", "echo $LD_PRELOAD"], env)
    tests.add("verbatim preload keeps what was preloaded",
              "" if output == f"{PRELOAD}:{ALONE}\n" else "it does not", output)
    with tempfile.TemporaryDirectory() as place:
        status, output = run(["cmake", "--install", BUILD, "--prefix", place, "--component",
                              "preload"], environment())
        installed = Path(place, "bin/verbatim")
        for options in ([], ["--stand-alone"]):
            status, output = run([installed, "preload", *options, "--", "ibv_devices"],
                                 environment())
            tests.add(f"installed verbatim preload {' '.join(options)}",
                      "" if status == 0 and "soft0" in output else f"exit status {status}", output)
        for library in Path(place).rglob("*.so*"):
            library.unlink()
        status, output = run([installed, "preload", "--", "ibv_devices"], environment())
        tests.add("verbatim preload without its library", "" if status == 125 else
                  f"exit status {status}", output)


def beside_real(tests):
    """With a device of the kernel's in the same list: in the virtual machine there is one."""
    guest = Path("tests/preload/guest.sh")
    status, output = run(["tools/vm/run", "--timeout=200", "--", guest, PRELOAD,
                          BUILD / "tests/preload/preload_conventions"], environment(), 240)
    if status == CANNOT:
        reason = (output.strip().splitlines() or ["no reason given"])[-1]
        tests.lane.add(Case("beside a real device", SKIPPED, reason))
    else:
        tests.lines("beside a real device", status, output)


def leftovers(tests):
    """Killed processes and all: what they had in shared memory is gone with the last of them."""
    run(["ibv_devinfo"], environment(LD_PRELOAD=PRELOAD))
    place = Path(f"/dev/shm/verbatim-{os.geteuid()}")
    # Others on this machine may be at work: a process holds a lock on its file while it lives.
    left = [file for file in sorted(place.glob("p*")) if is_free(file)]
    tests.add("nothing is left in /dev/shm", f"{left}" if left else "")


def is_free(file):
    try:
        with file.open("r+") as opened:
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError:  # It is held, or gone meanwhile.
        return False


def preload(lane):
    """Debian's verbs programs, and others, on soft0 through LD_PRELOAD."""
    lane.build("release", "preload_tests")
    tests = Tests(lane)
    for check, problems in verbs_exports.check_all(BUILD / "lib"):
        tests.add(check, "\n".join(problems))
    for group in (one_program, loaders, command_line, bystanders, refused, killed_peer, pairs,
                  beside_real, leftovers):
        begin = time.monotonic()
        group(tests)
        print(f"{lane.name}: {group.__name__.replace('_', ' ')}, {time.monotonic() - begin:.0f} s")
