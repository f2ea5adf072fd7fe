#!/bin/sh
# Every public header compiles alone, twice in a row, as strict C11 and C++17, with each compiler
# that is here; and includes only its siblings and three standard headers. So do a program that uses their
# macros, and the header for C++.
#   headers.sh INCLUDE-DIRECTORY WORK-DIRECTORY
set -eu
include=$1
work=$2
mkdir -p "$work"
failed=0
compiled=0

compile() { # compiler, language, standard, header
    [ "$2" = c ] && source=$work/alone.c || source=$work/alone.cc
    printf '#include <ckineto/%s>\n#include <ckineto/%s>\nextern int alone;\nint alone;\n' "$4" "$4" >"$source"
    if ! "$1" -x "$2" "-std=$3" -pedantic -Wall -Wextra -Wshadow -Werror -I "$include" \
        -fsyntax-only "$source"; then
        echo "$4 does not compile alone: $1 -std=$3 -pedantic"
        failed=1
    fi
    compiled=$((compiled + 1))
}

for path in "$include"/ckineto/*.h; do
    header=$(basename "$path")
    for compiler in gcc clang; do
        command -v $compiler >/dev/null 2>&1 && compile $compiler c c11 "$header"
    done
    for compiler in g++ clang++; do
        command -v $compiler >/dev/null 2>&1 && compile $compiler c++ c++17 "$header"
    done
    if grep -n '^ *# *include' "$path" | grep -v -E '<(ckineto/[a-z_]+\.h|stdbool\.h|stddef\.h|stdint\.h|string\.h)>'; then
        echo "$header includes more than <ckineto/…>, <stdbool.h>, <stddef.h>, <stdint.h>, <string.h>"
        failed=1
    fi
done
strict() { # compiler, language, standard, file
    command -v "$1" >/dev/null 2>&1 || return 0
    if ! "$1" -x "$2" "-std=$3" -pedantic -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Werror \
        -I "$include" -fsyntax-only "$4"; then
        echo "$4 does not compile: $1 -std=$3 -pedantic -Wconversion"
        failed=1
    fi
    compiled=$((compiled + 1))
}
for compiler in gcc clang; do
    strict $compiler c c11 "$(dirname "$0")/macros.c"
done
for compiler in g++ clang++; do
    strict $compiler c++ c++17 "$(dirname "$0")/macros.c"
    strict $compiler c++ c++17 "$include/ckineto/ckineto.hpp"
done
echo "$compiled compilations"
[ "$compiled" -gt 0 ] && [ "$failed" -eq 0 ]
