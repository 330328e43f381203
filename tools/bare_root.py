# SPDX-License-Identifier: MIT OR Apache-2.0
"""A fresh, bare root directory of the host's distribution, for tests of packages.

debootstrap makes one, which is kept in build/bare; each use works on a copy. The mirror, and how to
reach it, are those of the host.
"""
import re
import shutil
import subprocess
from pathlib import Path

from lane import Skip

PLACE = Path("build/bare").absolute()
BASE, ROOT, DEBS = PLACE / "base", PLACE / "root", PLACE / "debs"
ENTER = Path("tests/install/bare_root.sh").absolute()
CANNOT = 77
HOST_SETTINGS = re.compile(r'^Acquire::(?:https?|Retries|AllowInsecure|Check)\S* "[^"]+";$', re.M)


def codename():
    found = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.M)
    if not found:
        raise Skip("this system has no code name: a root can only be made on Debian and Ubuntu")
    return found[1]


def mirror():
    """The mirror from which the host gets its packages."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.*")]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    hosts = re.findall(r"^(?:deb(?: \[[^]]*\])? |URIs: *)(https?://\S+)", text, re.M)
    # Repositories other than the distribution's have packages for the host only.
    return next((host for host in hosts if re.search(r"/(debian|ubuntu)/?$", host)),
                "http://deb.debian.org/debian")


def make(lane):
    """Makes the copy, and first the original if there is none."""
    if not shutil.which("debootstrap"):
        raise Skip("there is no debootstrap")
    if not (BASE / "done").exists():
        shutil.rmtree(BASE, ignore_errors=True)
        print(f"{lane.name}: making a root of {codename()} in {BASE.relative_to(Path.cwd())}")
        status, output = lane.run(["debootstrap", "--variant=minbase", codename(), BASE, mirror()])
        if status != 0:
            raise Skip(f"debootstrap failed: {output.strip().splitlines()[-1:]}")
        settings = subprocess.run(["apt-config", "dump"], text=True, capture_output=True).stdout
        (BASE / "etc/apt/apt.conf.d/99host").write_text(
            "\n".join(HOST_SETTINGS.findall(settings)) +
            '\nAPT::Install-Recommends "0";\nBinary::apt-get::APT::Keep-Downloaded-Packages "1";\n')
        (BASE / "etc/apt/sources.list").write_text(f"deb {mirror()} {codename()} main\n")
        (BASE / "etc/dpkg/dpkg.cfg.d/quick").write_text("force-unsafe-io\n")
        (BASE / "done").touch()
    shutil.rmtree(ROOT, ignore_errors=True)
    lane.must("cp", "-a", str(BASE), str(ROOT))
    shutil.copy("/etc/resolv.conf", ROOT / "etc/resolv.conf")
    (ROOT / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    archives = ROOT / "var/cache/apt/archives"
    DEBS.mkdir(parents=True, exist_ok=True)
    for package in DEBS.glob("*.deb"):
        shutil.copy(package, archives)


def keep_downloads():
    """Keeps the downloaded packages for the next time."""
    for package in (ROOT / "var/cache/apt/archives").glob("*.deb"):
        if not (DEBS / package.name).exists():
            shutil.copy(package, DEBS)


def run(lane, folder, *command, limit_s=None):
    """(exit status, output) of a command inside the root."""
    status, output = lane.run([ENTER, ROOT, folder, *command], limit_s=limit_s)
    if status == CANNOT:
        raise Skip(output.strip().splitlines()[-1])
    return status, output
