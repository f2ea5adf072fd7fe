#!/bin/sh
# One part of tests/packages/run, inside of a fresh Debian: everything lies in /test.
#   inside.sh packages|tarball|static|source      source: WITH=test runs `make test`, too
set -eu
export DEBIAN_FRONTEND=noninteractive
cd /test

die() {
    echo "inside: $*" >&2
    exit 1
}
say() { echo "inside: $*"; }
install() { apt-get -q install -y --no-install-recommends "$@" </dev/null; }

# What README.md says, with the command and the package files that are found here.
readme() {
    "$1" --version | grep -q '^ckineto [0-9]' || die "no version"
    "$1" doctor >doctor.txt || { cat doctor.txt; die "doctor says that nothing can be recorded"; }
    # shellcheck disable=SC2046
    cc -Wall -Werror self_record.c $(pkg-config --cflags --libs ckineto) $2 -o self_record
    ./self_record >/dev/null
    "$1" verify -q self_record.json || die "what a program recorded of itself is not sound"
    "$1" info --json self_record.json | grep -q '"activities": *3\b' || die "not three steps"
    "$1" record --memory=64 -q -o memory.json -- ls / >/dev/null || die "memory cannot be recorded"
    "$1" info --json memory.json | grep -q '"allocations": *[1-9]' || die "no allocations of ls"
    "$1" record -o trace.json -- clpeak --global-bandwidth --kernel-latency >clpeak.txt 2>record.txt ||
        { cat clpeak.txt record.txt; die "the demo cannot be recorded"; }
    "$1" verify -q trace.json || die "the demo's trace is not sound"
    kernels=$("$1" query trace.json "SELECT count(*) FROM activities WHERE kind = 'kernel'" | grep -o '[0-9]*' | tail -n 1)
    [ "${kernels:-0}" -gt 1000 ] || die "$kernels kernels of clpeak"
    say "self_record, ls and clpeak were recorded: $kernels kernels"
}

programs="gcc libc6-dev pkg-config clpeak pocl-opencl-icd ocl-icd-libopencl1"
apt-get -q update </dev/null
case $1 in
packages)
    install ./*.deb
    ckineto --version # before anything else is installed that it might need
    dpkg -s ckineto libckineto0 libckineto-dev ckineto-plugins | grep -c '^Status: install ok installed' | grep -qx 4
    for file in man/man1/ckineto.1.gz bash-completion/completions/ckineto zsh/vendor-completions/_ckineto \
        fish/vendor_completions.d/ckineto.fish doc/ckineto-plugins/copyright; do
        [ -f "/usr/share/$file" ] || die "/usr/share/$file is not there"
    done
    bash -c '. /usr/share/bash-completion/completions/ckineto; complete -p ckineto' || die "no completion"
    # So that packages of others depend on versions that have what they use, and the linker finds it.
    dpkg-query --control-show libckineto0 symbols | grep -qx ' kineto_session_start@CKINETO_0.1 0.1' || die "no symbols"
    dpkg-query --control-show libckineto0 triggers | grep -q ldconfig || die "ldconfig is not asked for"
    install $programs
    readme ckineto ''
    apt-get -q purge -y ckineto ckineto-plugins libckineto-dev libckineto0 </dev/null
    left=$(find /usr /etc -name '*ckineto*')
    [ -z "$left" ] || die "removed, these stayed: $left"
    say "installed, used and removed"
    ;;
tarball)
    install libdw1 libisal2 libsqlite3-0 libzstd1 zlib1g $programs zlib1g-dev libisal-dev libzstd-dev libsqlite3-dev
    mkdir -p /opt/first
    tar -xf ./*.tar.gz -C /opt/first
    mv /opt/first/* /opt/moved
    export PKG_CONFIG_PATH=/opt/moved/lib/pkgconfig
    readme /opt/moved/bin/ckineto -Wl,-rpath,/opt/moved/lib
    say "unpacked, moved and used"
    ;;
source)
    # What the README says, in its words, of sources that came as they are.
    install make
    cd ckineto
    make demo
    installed=build/release/bin/ckineto
    "$installed" verify -q demo/trace.json || die "the demo's trace is not sound"
    kernels=$("$installed" query demo/trace.json "SELECT count(*) FROM activities WHERE kind = 'kernel'" | grep -o '[0-9]*' | tail -n 1)
    [ "${kernels:-0}" -gt 1000 ] || die "$kernels kernels in the demo"
    say "make demo: $kernels kernels"
    awk '/^make install PREFIX=/ { on = 1 } /^```/ { on = 0 } on' README.md >install.sh
    grep -q '^cc self_record.c' install.sh || die "README.md does not say how to install and link"
    awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' README.md >self_record.c
    sh -eux ./install.sh >/dev/null || die "what README.md says does not install and link"
    "$HOME/.local/bin/ckineto" verify -q self_record.json || die "what the README's program recorded is not sound"
    "$HOME/.local/bin/ckineto" info --json self_record.json | grep -q '"activities": *3\b' || die "not three steps"
    say "installed below \$HOME/.local; the README's program was compiled with it and recorded itself"
    [ -z "${WITH-}" ] || { make "$WITH" && say "make $WITH passed"; }
    ;;
static)
    ./ckineto --version
    ./ckineto analyze training.json.gz >analysis.txt || die "cannot analyze"
    [ "$(wc -l <analysis.txt)" -gt 20 ] || { cat analysis.txt; die "a short analysis"; }
    ./ckineto verify -q training.json.gz || [ $? -eq 1 ] || die "cannot verify"
    ./ckineto convert training.json.gz -o t.pftrace
    ./ckineto report training.json.gz -o report.html
    ./ckineto query training.json.gz 'SELECT count(*) FROM activities' >/dev/null
    say "the static command reads and analyses"
    ;;
*) die "no such part: $1" ;;
esac
