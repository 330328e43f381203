#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""tests/cli/rxe_guest.py VERBATIM TUTORIAL   runs where there is a real device, rxe0: in the
virtual machine, as root.

VERBATIM is our program of that name, TUTORIAL the program of manual/tutorial.md. First everything
is as it should be; then one thing after the other is broken, and mended with the command that the
doctor prints. Says "ok NAME" or "FAIL NAME: REASON" of each check; every command has a time limit.
"""
import fcntl
import json
import os
import pty
import resource
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import contextmanager

# Copies, because another user may not be able to look into the folder of the sources.
PROGRAMS = tempfile.mkdtemp(prefix="verbatim-")
os.chmod(PROGRAMS, 0o755)
VERBATIM, TUTORIAL = (shutil.copy(program, PROGRAMS) for program in sys.argv[1:])
DEVICE, INTERFACE, ADDRESS = "rxe0", "dummy0", "::ffff:10.77.0.1"
NODE = "/dev/infiniband/uverbs0"
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}
LIMIT_S = 240  # for one command; the guest has no processor of its own
# For ends that talk to each other: one of them may have to wait for a processor.
PATIENCE = ["--timeout", LIMIT_S / 2]


# ---- How to run, and what to expect --------------------------------------------------------------

class Said:
    """A command that has ended."""

    def __init__(self, process, output, errors):
        self.status, self.output, self.errors = process.returncode, output, errors
        self.text = output + errors

    @property
    def json(self):
        return json.loads(self.output)


def start(command, how, variables):
    return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=os.environ | variables, **how)


def finish(process):
    try:
        return Said(process, *process.communicate(timeout=LIMIT_S))
    except subprocess.TimeoutExpired:
        process.kill()
        said = process.communicate()
        raise AssertionError(f"no end after {LIMIT_S} s: {said}") from None


def run(*command, how=None, **variables):
    return finish(start(command, how or {}, variables))


def verbatim(*words, how=None, **variables):
    return run(VERBATIM, *words, how=how, **variables)


def line_of(process):
    """The next line of what a process prints, within the time limit."""
    ready, _, _ = select.select([process.stdout], [], [], LIMIT_S)
    expect(ready, f"{process.args} prints nothing for {LIMIT_S} s")
    return process.stdout.readline()


def expect(holds, *what):
    """Not an assert statement: python3 -O leaves those out."""
    if not holds:
        raise AssertionError(" ".join(str(each) for each in what))


def same(found, wanted, *what):
    expect(found == wanted, *what, f"is {found!r}, not {wanted!r}")


def has(text, *parts):
    for part in parts:
        expect(part in text, f"{part!r} is not in {text!r}")


def mend(fix):
    """The command of a finding, as somebody pastes it."""
    has(fix, "sudo ")
    said = run("sh", "-c", fix.replace("sudo ", ""))
    same(said.status, 0, fix, said.text)


class Doctor:
    """What `verbatim doctor` found."""

    def __init__(self, *words, how=None, **variables):
        said = verbatim("doctor", "--json", *words, how=how, **variables)
        self.status, self.all = said.status, said.json["findings"]
        self.of = {each["id"]: each for each in self.all}
        same(len(self.of), len(self.all), "number of different ids")
        same(said.json["good"], self.status == 0, "good, status", self.status)
        same(self.status, int(bool(self.with_severity("error"))), "status")

    def with_severity(self, *severities):
        return {each["id"] for each in self.all if each["severity"] in severities}

    def finds(self, *ids):
        """Nothing but these is wrong, and each has a reason."""
        wrong = {name: self.of[name] for name in self.with_severity("error", "warning")}
        expect(set(wrong) == set(ids), f"what is wrong is {wrong}, and should be {ids}")
        expect(all(each["why"] for each in wrong.values()), wrong)
        return self.of[ids[0]] if ids else None


@contextmanager
def closed_port():
    run("ip", "link", "set", INTERFACE, "down")
    try:
        state_becomes("DOWN")
        yield
    finally:
        run("ip", "link", "set", INTERFACE, "up")
        state_becomes("ACTIVE")


def state_becomes(wanted):
    """The kernel changes the port after the interface."""
    end = time.monotonic() + LIMIT_S
    while True:
        with open(f"/sys/class/infiniband/{DEVICE}/ports/1/state") as file:
            state = file.read()
        if wanted in state:
            return
        expect(time.monotonic() < end, f"the port is {state}, and never {wanted}")
        time.sleep(0.01)  # // wait: a file of sysfs says nothing by itself


@contextmanager
def closed_node():
    os.chmod(NODE, 0)
    try:
        yield
    finally:
        os.chmod(NODE, 0o666)


def memlock(limit_bytes, **more):
    """For a command that may lock so much."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK,
                                                     (limit_bytes, limit_bytes)), **more}


# ---- As it should be -----------------------------------------------------------------------------

def devices_lists_both():
    """devices: rxe0 with its port and addresses, and that programs get it"""
    said = verbatim("devices", "--json")
    same((said.status, said.json["taken"], said.json["error"]), (0, DEVICE, None))
    real, soft = said.json["devices"]
    same((real["name"], real["transport"], real["built_in"], real["taken"], real["error"]),
         (DEVICE, "kernel_software", False, True, None))
    has(real["why"], "ACTIVE")
    [port] = real["ports"]
    same((port["number"], port["state"], port["link_layer"]), (1, "ACTIVE", "Ethernet"))
    same({(gid["type"], gid["interface"]) for gid in port["gids"]}, {("RoCEv2", INTERFACE)})
    expect(ADDRESS in [gid["gid"] for gid in port["gids"]], port)
    same((soft["name"], soft["taken"]), ("soft0", False))
    has(soft["why"], DEVICE)
    has(verbatim("devices").output, DEVICE, "port 1: ACTIVE", ADDRESS, "open_device() takes it")


def doctor_is_content():
    """doctor: nothing is wrong"""
    doctor = Doctor()
    doctor.finds()
    for name, wanted in (("device", DEVICE), (f"port.{DEVICE}.1", "ACTIVE, Ethernet"),
                         (f"gid.{DEVICE}.1", "2 in the GID table"), ("modules", DEVICE),
                         ("nodes.uverbs0", "0666"), ("libibverbs", "loaded"),
                         ("memlock", "unlimited")):
        same(doctor.of[name]["severity"], "ok", name)
        has(doctor.of[name]["value"], wanted)
    said = verbatim("doctor")
    same(said.status, 0, "status")
    has(said.output, f"{DEVICE} port 1: ACTIVE", "0 errors, 0 warnings")


def small_mtu_is_noted():
    """doctor: its command for a larger MTU gives one"""
    name = f"mtu.{DEVICE}.1"
    before = Doctor().of[name]
    same((before["severity"], before["value"]), ("note", "1024 of 4096"))
    mend(before["fix"])
    after = Doctor().of[name]
    run("ip", "link", "set", INTERFACE, "mtu", "1500")
    same((after["severity"], after["value"]), ("ok", "4096"))


def pairs_that_work_are_found():
    """doctor PEER: the pairs that work, and why others do not"""
    listener = start([VERBATIM, "doctor", "--listen", "--port", "0", "--clients", "1", "--json",
                      *PATIENCE], {}, {})
    try:
        listening = json.loads(line_of(listener))
        same(listening["candidates"], 3)
        doctor = Doctor(listening["address"], *PATIENCE)
        heard = finish(listener)
    finally:
        listener.kill()
    doctor.finds()
    ends = [f"{DEVICE}.1.0", f"{DEVICE}.1.1", "soft0.1.0"]
    for ours in ends:
        for theirs in ends:
            pair = doctor.of[f"pair.{ours}--{theirs}"]
            same((pair["severity"], pair["value"]),
                 ("ok", "works") if ours == theirs else ("note", "cannot be connected"), pair["id"])
            if ours != theirs:
                has(pair["why"], "software device" if "soft0" in ours + theirs else "RoCEv2")
    has(doctor.of["peer"]["value"], "3 of 9 pairs work")
    served = json.loads(heard.output.splitlines()[-1])
    same((heard.status, served["event"], served["tested"], served["worked"]), (0, "served", 9, 3))


VERBS = {("send", 64), ("send", 4096), ("write", 64), ("write", 4096), ("read", 64),
         ("read", 4096), ("atomic", 8)}


def bench_checks_its_data():
    """bench: send, write, read and atomic, and the data is right"""
    said = verbatim("bench", "--verb", "all", "-s", "64,4K", "-n", "20", "--json", *PATIENCE)
    same((said.status, said.json["device"], said.json["interrupted"]), (0, DEVICE, False))
    results = said.json["results"]
    same({(each["verb"], each["bytes"]) for each in results}, VERBS)
    for each in results:
        same((each["verified"], each["latency_us"]["exchanges"]), (True, 20), each["verb"])
        expect(each["bandwidth"]["messages"] >= 20 and each["latency_us"]["min"] > 0, each)


def ping_between_processes():
    """ping: the other end is another process"""
    listener = start([VERBATIM, "ping", "--listen", "--port", "0", "--once", "--json", *PATIENCE],
                     {}, {})
    try:
        listening = json.loads(line_of(listener))
        same(listening["device"], DEVICE)
        said = verbatim("ping", listening["listening"], "-n", "3", "-i", "0", "--json", *PATIENCE)
        same(finish(listener).status, 0, "status of the listener")
    finally:
        listener.kill()
    same((said.status, said.json["answers"], said.json["verified"]), (0, 3, True), said.text)
    has(said.json["ends"], f"{DEVICE} to {DEVICE}")


def top_counts():
    """top: the port's packets, while there are some"""
    load = start([VERBATIM, "bench", "-s", "64", "--duration", LIMIT_S, "--json", *PATIENCE],
                 {}, {})
    top = start([VERBATIM, "top", "--json", "-i", "0.1", "-n", str(10 * LIMIT_S)], {}, {})
    try:
        while True:
            line = line_of(top)
            expect(line, "top ends, and has seen no packet")
            [port] = json.loads(line)["ports"]
            same((port["device"], port["port"], port["state"]), (DEVICE, 1, "ACTIVE"))
            if port["per_second"]["sent_pkts"] > 0:
                break
        expect(port["counters"]["sent_pkts"] > 0, port)
    finally:
        for process in (top, load):
            process.kill()
            process.communicate()


def top_in_a_terminal():
    """top: two frames in a terminal, which it gives back"""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
    top = subprocess.Popen([VERBATIM, "top", "-i", "0.2"], stdin=theirs, stdout=theirs,
                           stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        # Rates are since the frame before.
        screen = shown(ours, lambda text: f"{DEVICE} port 1  ACTIVE" in text and "/s" in text)
        has(screen, "sent_pkts", "q quits")
        os.write(ours, b"q")
        has(shown(ours, lambda text: "\x1b[?1049l" in text), "\x1b[?25h")
        same(top.wait(LIMIT_S), 0, "status")
    finally:
        top.kill()
        top.wait()
        os.close(ours)


def shown(terminal, is_there):
    """What was drawn until that is there."""
    text, end = "", time.monotonic() + LIMIT_S
    while not is_there(text):
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
        expect(ready, f"the terminal shows {text!r}")
        try:
            text += os.read(terminal, 65536).decode(errors="replace")
        except OSError:  # Its end: the program is gone.
            expect(is_there(text), f"the program ended, the terminal shows {text!r}")
    return text


# ---- Broken --------------------------------------------------------------------------------------

def closed_port_is_the_cause():
    """a closed port: the doctor names it, and its command opens it"""
    with closed_port():
        doctor = Doctor()
        port = doctor.finds(f"port.{DEVICE}.1")
        same((port["severity"], port["value"]), ("error", "DOWN, Ethernet"))
        has(port["why"], f"network interface {INTERFACE} is down")
        has(doctor.of["device"]["value"], "soft0")
        has(verbatim("doctor").output, f"error    {DEVICE} port 1: DOWN", "1 error, 0 warnings",
            f"fix: sudo ip link set {INTERFACE} up")
        mend(port["fix"])
        state_becomes("ACTIVE")
        Doctor().finds()


def closed_port_is_listed():
    """a closed port: devices says that programs do not get the device, and why"""
    with closed_port():
        said = verbatim("devices", "--json")
        real, soft = said.json["devices"]
        same((said.status, real["taken"], soft["taken"]), (0, False, True))
        same(real["ports"][0]["state"], "DOWN")
        has(real["why"], "port 1", "DOWN")
        said = verbatim("devices", "--json", VERBATIM_SOFT="0")
        same((said.status, said.json["taken"]), (1, None))
        has(said.json["error"], "DOWN")
        doctor = Doctor(VERBATIM_SOFT="0")
        doctor.finds("device", f"port.{DEVICE}.1")
        has(doctor.of["device"]["why"], f"{DEVICE} port 1", "DOWN")
        [port] = json.loads(verbatim("top", "--json", "-i", "0.05").output)["ports"]
        same(port["state"], "DOWN")


def closed_port_stops_programs():
    """a closed port: programs say that it is the cause"""
    said_of_it = ("the port is DOWN", f"{DEVICE} port 1 is now in state 1: DOWN", "ip link set")
    with closed_port():
        for variables in ({"VERBATIM_DEVICE": DEVICE}, {"VERBATIM_SOFT": "0"}):
            said = run(TUTORIAL, "listen", **variables) if "VERBATIM_SOFT" in variables else \
                run(TUTORIAL, **variables)
            expect(said.status != 0, "the tutorial's program ends with 0:", said.text)
            has(said.text, *said_of_it)
        for command in (["ping", "-n", "1"], ["bench", "-s", "8", "-n", "1"]):
            said = verbatim(*command, "--device", DEVICE)
            same(said.status, 1, command, said.text)
            has(said.errors, *said_of_it)


def wrong_device_is_named():
    """a device that there is not: it is named"""
    doctor = Doctor(VERBATIM_DEVICE="nope")
    choice = doctor.finds("device")
    has(choice["value"], "VERBATIM_DEVICE=nope")
    has(choice["why"], "no device has this name", DEVICE, "soft0")
    has(choice["fix"], f"export VERBATIM_DEVICE={DEVICE}")
    said = verbatim("devices", "--json", VERBATIM_DEVICE="nope")
    same((said.status, said.json["taken"]), (1, None))
    for said in (run(TUTORIAL, "listen", VERBATIM_DEVICE="nope"),
                 verbatim("ping", "-n", "1", "--device", "nope")):
        same(said.status, 1, said.text)
        has(said.errors, "not found: nope", "no device has this name", DEVICE)


def small_memlock_is_named():
    """little memory may be locked: the doctor says how much, and so does the program that fails"""
    tiny = memlock(16 * 1024, **NOBODY)
    limit = Doctor(how=tiny).finds("memlock")
    same((limit["severity"], limit["value"]), ("error", "16 KiB"))
    has(limit["fix"], "ulimit -l unlimited")
    said = verbatim("bench", "-s", "4K", "-n", "1", how=tiny)
    same(said.status, 1, said.text)
    has(said.errors, "out of resources", "memlock limit is 16 KiB", "ulimit -l")
    said = verbatim("ping", "-n", "1", how=memlock(0, **NOBODY))
    same(said.status, 1, said.text)
    has(said.errors, "memlock limit is 0", "ulimit -l")
    # The superuser is not bound by it.
    doctor = Doctor(how=memlock(16 * 1024))
    doctor.finds()
    has(doctor.of["memlock"]["value"], "16 KiB", "CAP_IPC_LOCK")
    said = verbatim("bench", "-s", "4K", "-n", "1", *PATIENCE, how=memlock(16 * 1024))
    same(said.status, 0, said.text)


def closed_node_is_named():
    """a device node that this user may not open: it is named, and the doctor's command opens it"""
    Doctor(how=NOBODY).finds()
    with closed_node():
        doctor = Doctor(how=NOBODY)
        node = doctor.finds("nodes.uverbs0", f"open.{DEVICE}")
        has(node["value"], "mode 0000")
        has(doctor.of[f"open.{DEVICE}"]["why"], NODE, "may not read and write it")
        said = run(TUTORIAL, "listen", how=NOBODY, VERBATIM_DEVICE=DEVICE)
        same(said.status, 1, said.text)
        has(said.errors, NODE, "mode 0000", "may not read and write it")
        mend(node["fix"])
        Doctor(how=NOBODY).finds()


# ---- All of it -----------------------------------------------------------------------------------

CHECKS = [devices_lists_both, doctor_is_content, small_mtu_is_noted, pairs_that_work_are_found,
          bench_checks_its_data, ping_between_processes, top_counts, top_in_a_terminal,
          closed_port_is_the_cause, closed_port_is_listed, closed_port_stops_programs,
          wrong_device_is_named, small_memlock_is_named, closed_node_is_named]


def main():
    failures = 0
    for check in CHECKS:
        begin = time.monotonic()
        try:
            check()
            print(f"ok {check.__doc__}", flush=True)
        except Exception as problem:  # Whatever it is, the other checks still run.
            failures += 1
            reason = f"{type(problem).__name__}: {problem}".replace("\n", "\\n")
            print(f"FAIL {check.__doc__}: {reason}", flush=True)
        print(f"   {time.monotonic() - begin:.1f} s", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
