#!/bin/sh
# Two builds of the command say the same about the same traces: a static one, one for another
# processor (through an emulator), and the plain one.
#   same_answers.sh COMMAND OTHER-COMMAND WORK-DIRECTORY TRACE...      commands may have several words
set -eu
one=$1 other=$2 work=$3
shift 3
mkdir -p "$work"
work=$(CDPATH= cd -- "$work" && pwd)
jobs=${JOBS:-$(nproc)}
failed=0

ask() ( # command, name of the answers, trace: everything that it can say, as files
    command=$1 to=$work/$2 trace=$3
    rm -rf "$to"
    mkdir -p "$to"
    answer() { # file, arguments…: what it writes to both outputs, and its status
        file=$to/$1
        shift
        status=0
        $command "$@" >"$file" 2>"$file.err" </dev/null || status=$?
        echo "status $status" >>"$file.err"
    }
    cd "$to"
    answer info info --json "$trace"
    answer verify verify "$trace"
    answer analyze analyze "$trace" --json=facts.json --csv csv
    answer findings analyze "$trace" --findings
    answer table table "$trace" --sort-by self_cpu_time_total
    answer json convert "$trace" -o trace.json
    answer perfetto convert "$trace" -o trace.pftrace
    answer folded convert "$trace" -o trace.folded
    answer repair repair "$trace" -o repaired.json
    answer slice slice "$trace" --top 50 -o longest.json
    answer diff diff "$trace" "$trace" --json=diff.json
    answer query query "$trace" "SELECT name, count(*), sum(dur_ns) FROM activities GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT 20"
)

compare() { # number, trace: what is wrong, if anything, into a file
    rm -rf "${work:?}/$1"
    trace=$(realpath "$2")
    ask "$one" "$1/one" "$trace"
    ask "$other" "$1/other" "$trace"
    {
        if ! diff -r "$work/$1/one" "$work/$1/other" >"$work/$1/differences"; then
            echo "$trace: the answers differ:"
            head -c 2000 "$work/$1/differences"
        fi
        # An empty answer to everything would be the same, too.
        grep -q '"activities"' "$work/$1/one/info" || echo "$trace: no answer"
    } >"$work/$1/wrong"
    rm -rf "$work/$1/one" "$work/$1/other"
}

count=0
for trace; do # as many at a time as there are processors
    compare "$count" "$trace" &
    count=$((count + 1))
    [ $((count % jobs)) != 0 ] || wait
done
wait
[ "$count" -gt 0 ] || { echo "no traces were given"; exit 1; }
i=0
while [ "$i" -lt "$count" ]; do # a comparison that was not made has not said that nothing is wrong
    [ -f "$work/$i/wrong" ] && [ ! -s "$work/$i/wrong" ] || { failed=1; cat "$work/$i/wrong"; }
    i=$((i + 1))
done
[ "$failed" = 0 ] && echo "$count traces: the same answers"
exit "$failed"
