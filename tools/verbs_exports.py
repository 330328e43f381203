#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares what our two libraries export with what the installed libibverbs exports.

    tools/verbs_exports.py DIRECTORY    where libverbatim-preload.so and verbatim/ lie

A new rdma-core may have a new function that takes one of our objects. If we do not export it, the
real library gets the object, looks for its own data in it, and crashes. So an unknown function is a
failure. To resolve it, add the function to src/preload or to HARMLESS.
"""
import re
import subprocess
import sys
from pathlib import Path

# These take none of our objects: texts, numbers, memory for fork, the kernel's records, and objects
# that our devices do not create. Under LD_PRELOAD the installed library provides them.
HARMLESS = set("""
ibv_copy_ah_attr_from_kern ibv_copy_path_rec_from_kern ibv_copy_path_rec_to_kern
ibv_copy_qp_attr_from_kern ibv_dofork_range ibv_dontfork_range ibv_event_type_str ibv_fork_init
ibv_get_sysfs_path ibv_is_fork_initialized ibv_node_type_str ibv_port_state_str ibv_rate_to_mbps
ibv_rate_to_mult ibv_wc_status_str mbps_to_ibv_rate mult_to_ibv_rate
ibv_dealloc_dmah ibv_dm_export_dmabuf_fd ibv_export_buf_dmabuf_fd ibv_free_buf
ibv_destroy_comp_cntr ibv_inc_comp_cntr ibv_inc_err_comp_cntr ibv_read_comp_cntr
ibv_read_err_comp_cntr ibv_set_comp_cntr ibv_set_err_comp_cntr
""".split())
# In the node of each release's own: for drivers, which know no device of ours; but these two not.
DRIVER_NODE = "IBVERBS_PRIVATE_"
FOR_PROGRAMS = {"ibv_query_gid_type", "ibv_read_sysfs_file"}
# The functions of the C library that take a path, or that list a directory.
PATHS = set("""
open open64 openat openat64 __open_2 __open64_2 __openat_2 __openat64_2 fopen fopen64 stat stat64
lstat lstat64 fstat fstat64 fstatat fstatat64 statx __xstat __xstat64 __lxstat __lxstat64 __fxstat
__fxstat64 __fxstatat __fxstatat64 access eaccess euidaccess faccessat realpath __realpath_chk
readlink readlinkat __readlink_chk __readlinkat_chk opendir fdopendir readdir readdir64 readdir_r
readdir64_r closedir rewinddir telldir seekdir dirfd scandir scandir64 chdir fchdir getcwd
__getcwd_chk getxattr lgetxattr
""".split())
# Functions that look up others at run time; not in the stand-alone library, which programs load.
LOADER = {"dlsym", "dlvsym"}
DRIVERS = re.compile(r"ibv_|_?verbs_|__verbs_log|execute_ioctl|__ioctl_final")


def exports(library):
    """{function: its default version, or "" for none}"""
    table = subprocess.run(["readelf", "--dyn-syms", "--wide", library], text=True,
                           capture_output=True, check=True).stdout
    found = {}
    for line in table.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[3] not in ("FUNC", "OBJECT", "IFUNC") or fields[6] == "UND":
            continue
        name, at, version = fields[7].partition("@@")
        # A single @ marks an older variant, for old programs only. ABS: the name of a version node.
        if fields[6] != "ABS" and "@" not in name:
            found[name] = version if at else ""
    return found


def installed_library():
    listed = subprocess.run(["/sbin/ldconfig", "-p"], text=True, capture_output=True,
                            check=True).stdout
    return re.search(r"libibverbs\.so\.1 .*=> (\S+)", listed)[1]


def is_offered(name, version, ours):
    """Whether a program that wants this version finds it. The base version fits any."""
    return name in ours and ours[name] in (version, "")


def unknown_to_preload(installed, ours):
    for name, version in sorted(installed.items()):
        for_drivers = version.startswith(DRIVER_NODE) and name not in FOR_PROGRAMS
        if not for_drivers and name not in HARMLESS and not is_offered(name, version, ours):
            yield f"{name}@{version}: the installed libibverbs has it, and we do not"


def missing_alone(installed, ours):
    for name, version in sorted(installed.items()):
        if not is_offered(name, version, ours):
            yield f"{name}@{version}: programs may import it, and it is not there"


def strangers(ours, alone):
    """Exports that are not verbs: other libraries' symbols could be bound to them."""
    for name, version in sorted(ours.items()):
        is_verb = version.startswith("IBVERBS_1.") or name in FOR_PROGRAMS
        known = PATHS | (set() if alone else LOADER)
        if not is_verb and name not in known and not (alone and DRIVERS.match(name)):
            yield f"{name} is exported"


def check_all(directory):
    """[(check, its problems)]"""
    installed = exports(installed_library())
    preload = exports(Path(directory, "libverbatim-preload.so"))
    alone = exports(Path(directory, "verbatim", "libibverbs.so.1"))
    tomorrow = installed | {"ibv_of_tomorrow": "IBVERBS_9.9"}
    renamed = {name: "IBVERBS_9.9" if name == "ibv_create_qp" else version
               for name, version in installed.items()}
    return [
        ("preload: every installed verb is known", list(unknown_to_preload(installed, preload))),
        ("stand-alone: every installed function is there", list(missing_alone(installed, alone))),
        ("preload: only verbs and paths are exported", list(strangers(preload, False))),
        ("stand-alone: nothing else is exported", list(strangers(alone, True))),
        ("a function of tomorrow would be noticed",
         [] if len(list(unknown_to_preload(tomorrow, preload))) == 1 else ["it is not"]),
        ("a new version would be noticed",
         [] if len(list(unknown_to_preload(renamed, preload))) == 1 else ["it is not"]),
    ]


if __name__ == "__main__":
    results = check_all(sys.argv[1])
    for name, problems in results:
        print(f"{'FAIL' if problems else 'ok  '} {name}", *problems, sep="\n  ")
    sys.exit(1 if any(problems for _, problems in results) else 0)
