# SPDX-License-Identifier: MIT OR Apache-2.0
"""TCP ports for pairs of programs where one listens and the other connects."""
import socket
import time
from pathlib import Path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port, process, patience_s=60):
    """Waits until a process listens at the port. Looks into /proc, because a connection would end
    the server. Returns False if the process ended, or took too long."""
    wanted = f":{port:04X} "
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and process.poll() is None:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            try:
                lines = Path(table).read_text().splitlines()
            except OSError:
                continue
            if any(wanted in line[:45] and line.split()[3] == "0A" for line in lines):
                return True
        time.sleep(0.01)  # wait: between two looks
    return False
