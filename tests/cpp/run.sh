#!/bin/sh
# Compile the test of ckineto.hpp with one compiler and run it:
#   run.sh SOURCE-DIRECTORY LIBRARY-DIRECTORY WORK-DIRECTORY COMPILER OPTION…
set -eu
source=$1 libraries=$2 work=$3 compiler=$4
shift 4
command -v "$compiler" >/dev/null || { echo "there is no $compiler here"; exit 77; }
mkdir -p "$work"
program=$work/$(echo "test_cpp $compiler $*" | tr -c 'a-z0-9_+\n-' _)
"$compiler" -std=c++17 -Wall -Wextra -pedantic -Wshadow -Wconversion -Werror "$@" \
    -I "$source/include" "$source/tests/cpp/test_cpp.cpp" -o "$program" \
    -L "$libraries" -lckineto -lckineto-rt -Wl,-rpath,"$libraries"
"$program"
rm "$program"
