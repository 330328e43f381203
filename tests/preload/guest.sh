#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# tests/preload/guest.sh PRELOAD CONVENTIONS   runs where there is a real device, rxe0: in the
# virtual machine. Says "ok NAME" or "FAIL NAME" of each check, as the C programs do.
export LD_PRELOAD=$1
conventions=$2
failures=0

check() {  # check NAME COMMAND...
  local name=$1
  shift
  if "$@" >/tmp/said 2>&1; then
    echo "ok $name"
  else
    echo "FAIL $name: exit status $?: $(tail -n3 /tmp/said | paste -sd' ')"
    failures=$((failures + 1))
  fi
}

pingpong() {  # pingpong DEVICE GID
  local command=(timeout 200 ibv_rc_pingpong -d "$1" -g "$2" -n 50 -c) server
  "${command[@]}" &
  server=$!
  for _ in $(seq 600); do
    # 18515; 0A: it listens. An earlier connection to that port may still be there.
    cat /proc/net/tcp /proc/net/tcp6 | awk '{ print $2, $4 }' | grep -q ':4853 0A' && break
    sleep 0.1
  done
  "${command[@]}" localhost && wait "$server"
}

list=$(ibv_devices | awk 'NR > 2 { print $1 }' | paste -sd' ')
check "the list has both, the real one first" test "$list" = "rxe0 soft0"
for place in /sys/class/infiniband /dev/infiniband; do
  both=$(ls "$place" | grep -cE '^(rxe0|soft0|uverbs0|uverbs-soft0)$')
  check "$place has both" test "$both" = 2
done
check "the real device is read" grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
check "also from there" sh -c 'cd /sys/class/infiniband && grep -q ACTIVE */ports/1/state &&
  test "$(echo *)" = "rxe0 soft0" && cd rxe0 && grep -q ACTIVE ports/1/state && test -e ../rxe0'
check "the real device tells of itself" ibv_devinfo -v -d rxe0
check "so does ours" ibv_devinfo -v -d soft0
check "data goes through the real device" pingpong rxe0 1
check "and through ours" pingpong soft0 0
check "ours behaves as the manual says" timeout 200 "$conventions" soft0
# ibv_devinfo opens all of them, one after the other, and closes them.
check "both in one process" ibv_devinfo
exit $((failures > 0))
