#!/bin/sh
# What must compile, what must not, and what must warn: kinds as constants, old names of kinds, and the
# type of what is registered as PrivateUse1. In C11 and C++17, with each compiler that is here.
#   compile.sh INCLUDE-DIRECTORY THIS-DIRECTORY WORK-DIRECTORY
set -eu
include=$1
here=$2
work=$3
mkdir -p "$work"
failed=0
runs=0

fault() {
    echo "$*"
    failed=1
}

# compile COMPILER LANGUAGE SOURCE OPTIONS…: messages into $work/messages
compile() {
    compiler=$1
    language=$2
    source=$3
    shift 3
    runs=$((runs + 1))
    [ "$language" = c ] && standard=c11 || standard=c++17
    LC_ALL=C "$compiler" -x "$language" -std=$standard -pedantic -Wall -Wextra -Wshadow -I "$include" \
        -fsyntax-only "$@" "$source" >"$work/messages" 2>&1
}

old_names() { # compiler, language
    constants=$here/constants.c
    compile "$1" "$2" "$constants" -Werror || fault "$1 ($2): constants.c does not compile: $(cat "$work/messages")"
    [ ! -s "$work/messages" ] || fault "$1 ($2): old names warn without being requested: $(cat "$work/messages")"
    compile "$1" "$2" "$constants" -DKINETO_DEPRECATED_KINDS || fault "$1 ($2): a warning became an error"
    warned=$(grep -o "'KINETO_KIND_[A-Z0-9_]*'.* is deprecated" "$work/messages" | sort -u | wc -l)
    [ "$warned" -eq 14 ] || fault "$1 ($2): $warned of 14 old names are pointed out"
    compile "$1" "$2" "$constants" -DKINETO_DEPRECATED_KINDS -DWITHOUT_OLD_NAMES -Werror ||
        fault "$1 ($2): the headers themselves use old names: $(cat "$work/messages")"
}

# registers COMPILER LANGUAGE TYPE MACRO OPTIONS…: does a program compile that registers a TYPE *?
registers() {
    compiler=$1
    language=$2
    cat >"$work/register.c" <<END
#include <ckineto/host.h>
extern $3 *const profiler;
$4(profiler);
extern int registers;
int registers;
END
    shift 4
    compile "$compiler" "$language" "$work/register.c" -Werror "$@"
}

types() { # compiler, language
    macro=KINETO_REGISTER_PRIVATEUSE1_PROFILER
    for type in "const KinetoPlugin_ProfilerInterface" KinetoPlugin_ProfilerInterface; do
        registers "$1" "$2" "$type" $macro || fault "$1 ($2): $type * is refused: $(cat "$work/messages")"
    done
    for type in void "const void" int "const KinetoPlugin_Registry" KinetoPlugin_ProfilerHandle \
        "const KinetoPlugin_ProfilerInterface *" "volatile KinetoPlugin_ProfilerInterface"; do
        ! registers "$1" "$2" "$type" $macro || fault "$1 ($2): $type * is accepted"
    done
    upstream=REGISTER_PRIVATEUSE1_PROFILER
    type="const KinetoPlugin_ProfilerInterface"
    registers "$1" "$2" "$type" $upstream -DKINETO_UPSTREAM_NAMES ||
        fault "$1 ($2): $upstream is not there: $(cat "$work/messages")"
    ! registers "$1" "$2" "$type" $upstream || fault "$1 ($2): $upstream is there without being requested"
    ! registers "$1" "$2" void $upstream -DKINETO_UPSTREAM_NAMES || fault "$1 ($2): $upstream accepts void *"
}

for compiler in gcc clang g++ clang++; do
    command -v $compiler >/dev/null 2>&1 || continue
    case $compiler in *++) language=c++ ;; *) language=c ;; esac
    old_names $compiler $language
    types $compiler $language
done
echo "$runs compilations"
[ "$runs" -gt 0 ] && [ "$failed" -eq 0 ]
