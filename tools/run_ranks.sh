#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# tools/run_ranks.sh OUT VERBATIM PROGRAM...   runs each program as two and as four ranks, in the
# guest of tools/vm/run. VERBATIM is our program of that name.
#
# Writes OUT/NAME-RANKS.log, and a line "NAME-RANKS STATUS" to OUT/results: see run_examples.sh.
out=$1
verbatim=$2
shift 2
for program in "$@"; do
  for ranks in 2 4; do
    name=${program##*/}-$ranks
    timeout -k 5 400 "$verbatim" run -n "$ranks" -- "$program" >"$out/$name.log" 2>&1 </dev/null
    status=$?
    echo "$name $status" >>"$out/results"
    echo "$name: exit status $status"
  done
done
