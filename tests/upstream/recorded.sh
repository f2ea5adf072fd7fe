#!/bin/sh
# A program that registers a PrivateUse1 profiler when it is loaded, recorded from outside: the profiler
# is forwarded without the program's doing, and its event is in the trace.
#   recorded.sh COMMAND PROGRAM
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" record -o "$work/trace.json" "$2" recorded
events=$(grep -c '"load time kernel"' "$work/trace.json")
[ "$events" -eq 1 ] || { echo "$events events in the trace"; exit 1; }
