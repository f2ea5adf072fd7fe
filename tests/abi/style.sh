#!/bin/sh
# Size and manners of the tree: no source over 1000 lines, every source says what it is, no tabs or
# trailing blanks, nothing that speaks of the place where it was written. Functions of 100 lines and
# more are reported (with universal-ctags), not refused: a flat table may be long.
#   style.sh SOURCE-DIRECTORY
set -eu
cd "$1"
failed=0
found=$(mktemp)
trap 'rm -f "$found"' EXIT

files() { # what is in the repository, or would be
    git ls-files --cached --others --exclude-standard 2>/dev/null ||
        find . \( -path ./build -o -path ./.git \) -prune -o -type f -print
}
sources() { files | grep -E '\.(c|h|def)$' | while read -r f; do [ -f "$f" ] && echo "$f"; done; }
refuse() { # text on stdin is what is wrong
    if grep .; then
        echo "  ^ $1"
        failed=1
    fi
}

sources | grep -E '^(\./)?(src|plugins|include)/' | xargs -r wc -l | awk '$1 > 1000 && $2 != "total"' >"$found"
refuse "longer than 1000 lines" <"$found"
sources | while read -r f; do
    head -c 2 "$f" | grep -q '^/[*/]' || echo "$f"
done >"$found"
refuse "does not begin with a comment that says what it is" <"$found"
sources | xargs -r grep -nE "$(printf '\t')|[[:blank:]]\$" >"$found" || true
refuse "tab or trailing blank" <"$found"
# Spelled so that this file does not match itself.
words='/wor[k]/|share[d]/(DESIGN|reference|prototypes)|\b(sub)?agen[t]s?\b|\bissu[e]s? #?[0-9]+|claud[e]|anthropi[c]'
# A key of the JSON of rocprofv3 has such a name.
files | xargs -r grep -IinE "$words" 2>/dev/null | grep -v '"agen[t]s"' >"$found" || true
refuse "speaks of the workplace" <"$found"

if ctags --version 2>/dev/null | grep -q Universal; then
    sources | ctags -L - --languages=C --kinds-C=f --fields=+ne --sort=no -f - 2>/dev/null |
        awk -F '\t' '{
            start = end = 0
            for (i = 4; i <= NF; i++) {
                if ($i ~ /^line:/) start = substr($i, 6)
                if ($i ~ /^end:/) end = substr($i, 5)
            }
            if (end) { n = end - start + 1; count++; if (n > 60) over60++
                       if (n >= 100) printf "note: %s:%d: %s has %d lines\n", $2, start, $1, n }
        } END { if (count) printf "%d functions, %.1f %% of them over 60 lines\n", count, 100 * over60 / count }'
fi
exit $failed
