#!/bin/sh
# A program with the names of version 0.1 compiles, as C or C++, and behaves as before.
#   old_names.sh SOURCE LIBRARY-DIRECTORY DIRECTORY LANGUAGE
set -eu
source=$1 libraries=$2 out=$3 language=$4
compiler=cc standard=c11
[ "$language" = c ] || { compiler=c++ standard=c++17; }
command -v "$compiler" >/dev/null || { echo "no $compiler: skipped"; exit 77; }
compile() {
    "$compiler" -x "$language" -std=$standard -Wall -Wextra -Werror "$@" -I "$source/include" \
        "$source/tests/abi/program_of_0_1.c" -o "$out/program_of_0_1" \
        -L "$libraries" -lckineto -lckineto-rt "-Wl,-rpath,$libraries"
}
if compile 2>/dev/null; then
    echo "no name is marked as deprecated"
    exit 1
fi
compile -Wno-deprecated-declarations
"$out/program_of_0_1"
