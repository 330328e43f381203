#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# tools/install.sh GROUP...   installs the Debian packages of these groups that are missing.
#
# Asks dpkg first: a machine that has everything needs no network and no rights.
set -euo pipefail

build="g++ cmake ninja-build ccache libibverbs-dev nlohmann-json3-dev libgtest-dev libgmock-dev
  libcli11-dev libfmt-dev libasio-dev libsodium-dev libpmix-dev python3 git ca-certificates"
clang="clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev llvm-19"
vm="qemu-system-x86 busybox-static cpio kmod iproute2 rdma-core ibverbs-providers libibverbs1"
bench="valgrind"
preload="ibverbs-utils perftest libibverbs1 ibverbs-providers binutils infiniband-diags qperf
  ucx-utils openmpi-bin libopenmpi-dev"
soft_bench="ucx-utils libfabric-bin"  # what ./bench soft compares with
install="debootstrap dpkg-dev file make pkg-config python3-clang-19"
mpi="openmpi-bin libopenmpi-dev"      # serves PMIx; ./bench barrier
docs="mkdocs mkdocs-material doxygen doxygen-awesome-css"
cli="perftest"                        # verbatim bench --against perftest

die() {
  echo "install.sh: $*" >&2
  exit 1
}

installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Prints those of its arguments that are not installed.
missing_of() {
  local package
  for package in "$@"; do
    installed "$package" || echo "$package"
  done
}

wanted=()
for group in "$@"; do
  case $group in
    build | clang | vm | bench | preload | soft-bench | mpi | docs | install | cli)
      list=${group//-/_}
      read -r -d '' -a packages <<<"${!list}" || true
      ;;
    *)
      die "no group '$group'; groups: build clang vm bench preload soft-bench mpi docs install cli"
      ;;
  esac
  wanted+=("${packages[@]}")
done

command -v dpkg-query >/dev/null ||
  die "this is not Debian or Ubuntu; install by hand: ${wanted[*]}"
mapfile -t missing < <(missing_of "${wanted[@]}")
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || die "not root and no sudo; cannot install: ${missing[*]}"
  as_root=(sudo)
fi
apt() {
  # Another apt may be at work, and a slow mirror must not hold us for ever.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq \
    -o DPkg::Lock::Timeout=300 -o Acquire::http::Timeout=60 -o Acquire::Retries=3 "$@"
}

echo "installing: ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for attempt in 1 2 3; do
  if { apt update && apt install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    exit 0
  fi
  ((attempt == 3)) || sleep $((attempt * 5))
done
mapfile -t missing < <(missing_of "${missing[@]}")
die "cannot install ${missing[*]}: $(grep -m1 '^E:' "$log" || tail -n1 "$log")"
