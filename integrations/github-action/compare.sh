#!/usr/bin/env bash
# Records the commands, or finds the traces, and compares them. Outputs for later steps: outcome, directory, comment,
# sarif. A failed gate is an outcome, not a failure of this step, so that the comment is still written.
set -euo pipefail

name=${CKINETO_NAME:-ckineto}
directory=ckineto-${name//[^A-Za-z0-9._-]/-}
mkdir -p "$directory"
rm -f "$directory"/comment.md

set_output() { echo "$1=$2" >> "${GITHUB_OUTPUT:-/dev/null}"; }
fail() {
    echo "::error::$1"
    exit 1
}

# The lines of $1 as words in the array `lines`; empty ones are left out.
read_lines() {
    lines=()
    local line
    while IFS= read -r line; do
        line="${line#"${line%%[![:space:]]*}"}"
        line="${line%"${line##*[![:space:]]}"}"
        if [ -n "$line" ]; then lines+=("$line"); fi
    done <<< "$1"
}

# The files that match the patterns of $1, in the array `files`.
find_traces() {
    files=()
    local pattern
    read_lines "$1"
    for pattern in "${lines[@]}"; do
        local found=()
        mapfile -t found < <(compgen -G "$pattern" | sort -V || true)
        [ "${#found[@]}" -gt 0 ] || fail "no trace matches '$pattern'"
        files+=("${found[@]}")
    done
}

set_output directory "$directory"
read_lines "${CKINETO_RECORD_OPTIONS:-}"
options=("--repeat=${CKINETO_REPEAT:-10}" "--output=$directory")
for option in "${lines[@]}"; do options+=("--record=$option"); done

before=() after=()
if [ -n "${CKINETO_COMMAND:-}" ] && [ -n "${CKINETO_BASE_COMMAND:-}" ]; then
    ckineto bench "${options[@]}" --ab "$CKINETO_BASE_COMMAND" "$CKINETO_COMMAND" || fail "ckineto bench failed"
    before=("$directory"/a-*.json.gz) after=("$directory"/b-*.json.gz)
elif [ -n "${CKINETO_COMMAND:-}" ]; then
    ckineto bench "${options[@]}" -- sh -c "$CKINETO_COMMAND" || fail "ckineto bench failed"
    after=("$directory"/run-*.json.gz)
elif [ -n "${CKINETO_AFTER:-}" ]; then
    find_traces "$CKINETO_AFTER"
    after=("${files[@]}")
else
    fail "give command, or after with traces that exist"
fi
if [ -n "${CKINETO_BEFORE:-}" ]; then
    find_traces "$CKINETO_BEFORE"
    before=("${files[@]}")
fi
if [ "${#before[@]}" -eq 0 ]; then
    echo "::notice::recorded; there is nothing to compare with: give base-command or before"
    set_output outcome recorded
    exit 0
fi

read_lines "${CKINETO_GATES:-}"
gates=()
for gate in "${lines[@]}"; do gates+=("--fail-on=$gate"); done
status=0
ckineto diff --runs "${gates[@]}" --markdown "$directory/comment.md" --sarif "$directory/diff.sarif" \
    --junit "$directory/gates.xml" --json "$directory/diff.json" "${before[@]}" -- "${after[@]}" || status=$?
case $status in
0) outcome=passed ;;
1) outcome=failed ;;
*)
    [ -s "$directory/comment.md" ] || fail "ckineto diff failed"
    outcome=skipped
    ;;
esac
set_output outcome "$outcome"
set_output comment "$directory/comment.md"
set_output sarif "$directory/diff.sarif"
cat "$directory/comment.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
