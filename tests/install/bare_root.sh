#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# tests/install/bare_root.sh ROOT FOLDER COMMAND...   runs a command in FOLDER of another root.
#
# In a mount namespace of its own, so that nothing stays mounted. Exit status 77 where this process
# may not do that.
set -euo pipefail
root=$1 folder=$2
shift 2
((EUID == 0)) || { echo "only root can enter another root"; exit 77; }
unshare --mount true 2>/dev/null || { echo "no mount namespace is allowed here"; exit 77; }
# shellcheck disable=SC2016
exec unshare --mount bash -euc '
  root=$1 folder=$2
  shift 2
  mount --make-rprivate /
  if ! { mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev"; } 2>/dev/null; then
    echo "no mount is allowed here"
    exit 77
  fi
  exec chroot "$root" env -i HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    sh -c "cd \"\$0\" && exec \"\$@\"" "$folder" "$@"
' bash "$root" "$folder" "$@"
