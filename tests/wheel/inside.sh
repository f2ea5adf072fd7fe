#!/bin/sh
# The part `old` of tests/wheel/run, inside of Debian 11: everything lies in /test.
set -eu
cd /test
die() {
    echo "inside: $*" >&2
    exit 1
}
ldd --version | head -n 1
python3 -m pip install --no-index --quiet ./*.whl 2>/dev/null || die "pip install"
ckineto --version
for file in /usr/local/lib/python3*/dist-packages/ckineto/_native/lib/*.so.0 \
    /usr/local/lib/python3*/dist-packages/ckineto/_native/lib/ckineto/*.so; do
    ! ldd "$file" 2>&1 | grep -E 'not found|GLIBC' || die "$file cannot be loaded"
done
ckineto doctor >doctor.txt || { cat doctor.txt; die "doctor"; }
ckineto record -o t.json -- python3 -c "
import ckineto
with ckineto.range('the step'):
    print(sum(range(1000)))" >out.txt 2>&1 || { cat out.txt; die "record"; }
grep -q 499500 out.txt || die "the program's output is not there"
grep -q 'the step' t.json || die "the range is not in the trace"
ckineto record --memory=64 -q -o m.json -- ls / >/dev/null || die "memory cannot be recorded"
python3 -W error -c "
import ckineto
def work(n):
    return n and work(n - 1)
with ckineto.profile(with_stack=True) as p:
    work(3)
p.export_chrome_trace('p.json')" || die "functions of Python cannot be recorded"
grep -q python_function p.json || die "no functions of Python"
ckineto analyze training.json.gz >analysis.txt || die "analyze"
[ "$(wc -l <analysis.txt)" -gt 20 ] || { cat analysis.txt; die "a short analysis"; }
ckineto convert training.json.gz -o t.json.zst
ckineto query t.json.zst 'SELECT count(*) FROM activities' >/dev/null
python3 -m pip uninstall --yes --quiet ckineto 2>/dev/null || die "pip uninstall"
left=$(find /usr/local -name '*ckineto*' ! -type d)
[ -z "$left" ] || die "removed, these stayed: $left"
echo "inside: $(ldd --version | sed -n '1s/.* //p'): installed, recorded, analysed and removed"
