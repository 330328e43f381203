#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# tools/run_examples.sh OUT PROGRAM...   runs each program, in the guest of tools/vm/run.
#
# Writes OUT/NAME.log, and a line "NAME STATUS" to OUT/results. Plain sh, and the verdicts go to a
# file, so that what an example prints cannot be mistaken for one.
out=$1
shift
for program in "$@"; do
  name=${program##*/}
  timeout -k 5 400 "$program" >"$out/$name.log" 2>&1 </dev/null
  status=$?
  echo "$name $status" >>"$out/results"
  echo "$name: exit status $status"
done
