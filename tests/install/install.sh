#!/bin/sh
# One use of an installed (and then moved) ckineto, by the name of the test.
#   install.sh NAME SOURCE-DIRECTORY BUILD-DIRECTORY WORK-DIRECTORY CMAKE
set -eu
name=$1 source=$2 build=$3 work=$4 cmake=$5
consumer=$source/tests/install/consumer
prefix=$work/moved
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' "$build/CMakeCache.txt")
lib=$prefix/$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$build/CMakeCache.txt")
mine=$work/$name
cc=${CC:-cc}
unset LD_LIBRARY_PATH CKINETO_SESSION PKG_CONFIG_LIBDIR 2>/dev/null || :
export PKG_CONFIG_PATH="$lib/pkgconfig"

die() {
    echo "$*" >&2
    exit 1
}
[ "$name" = tree_is_complete_and_moves ] || { rm -rf "$mine" && mkdir -p "$mine"; }

# Run a consumer: it must find its libraries below the moved tree and record five activities.
check_program() {
    (cd "$mine" && "$1" trace.json) | tee "$mine/out"
    grep -qx '5 activities' "$mine/out" || die "expected 5 activities"
    [ "$(grep -o '"name": *"a step"' "$mine/trace.json" | wc -l)" -eq 5 ] || die "not all in the file"
}
check_links() { # program, pattern, yes|no
    if ldd "$1" | grep -q "$2"; then found=yes; else found=no; fi
    [ "$found" = "$3" ] || { ldd "$1"; die "linked with $2: $found, expected $3"; }
}
part= # of what is built: all
by_cmake() { # source, target, options…
    file=$1 target=$2
    shift 2
    "$cmake" -S "$consumer" -B "$mine/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DSOURCE="$file" \
        -DTARGET="$target" -DCMAKE_PREFIX_PATH="$prefix" "$@" >"$mine/configure.log" 2>&1 ||
        { cat "$mine/configure.log"; die "does not configure"; }
    "$cmake" --build "$mine/build" $part >"$mine/build.log" 2>&1 || { cat "$mine/build.log"; die "does not build"; }
    program=$(find "$mine/build" -name consumer -type f -perm -u+x | head -1)
}
by_pkg_config() { # source, module, options of pkg-config…
    file=$1 module=$2
    shift 2
    # shellcheck disable=SC2046
    "$cc" -std=c11 -Wall -Wextra -Werror "$consumer/$file" -o "$mine/consumer" \
        $(pkg-config --cflags --libs "$@" "$module") -Wl,-rpath,"$rpath"
    program=$mine/consumer
}

rpath=$lib
case $name in
tree_is_complete_and_moves)
    rm -rf "$work/first" "$prefix" # the other tests have directories in it, and may run now
    mkdir -p "$work"
    "$cmake" --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
    mv "$work/first" "$prefix"
    for path in bin/ckineto include/ckineto/ckineto.h include/ckineto/plugin.h; do
        [ -f "$prefix/$path" ] || die "$path was not installed"
    done
    for path in libckineto.so libckineto.a libckineto-rt.so libckineto-rt.a pkgconfig/ckineto.pc \
        pkgconfig/ckineto-rt.pc cmake/ckineto/ckinetoConfig.cmake; do
        [ -e "$lib/$path" ] || die "$lib/$path was not installed"
    done
    for path in bash-completion/completions/ckineto zsh/site-functions/_ckineto \
        fish/vendor_completions.d/ckineto.fish; do
        [ -s "$prefix/share/$path" ] || die "share/$path was not installed"
    done
    [ -e "$lib/ckineto/roctx/libroctx64.so.4" ] || die "the names of ROCTX's library were not installed"
    for page in "$source"/docs/man/*.1; do
        [ -f "$page" ] || continue
        [ -f "$prefix/share/man/man1/$(basename "$page")" ] || die "$page was not installed"
    done
    for header in "$source"/include/ckineto/*; do
        cmp "$header" "$prefix/include/ckineto/$(basename "$header")"
    done
    if grep -rlI -e "$source/src/" -e "$source/include/" -e "$build" -e "$work/first" "$prefix"; then
        die "these name a directory that is not the prefix"
    fi
    for file in "$prefix"/bin/ckineto "$lib"/*.so "$lib"/ckineto/*.so; do
        [ -e "$file" ] || continue
        if readelf -d "$file" | grep -E 'R(UN)?PATH' | grep -v 'ORIGIN'; then
            die "$file has an absolute run path"
        fi
    done
    ;;
documents_lead_nowhere_else)
    python=$(sed -n 's/^Python3_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
    docs=$prefix/$(sed -n 's/^CMAKE_INSTALL_DATAROOTDIR:[A-Z]*=//p' "$build/CMakeCache.txt")/doc/ckineto
    for page in README.md CHANGELOG.md LICENSE docs/project/third-party.md docs/api/README.md examples/self_record.c; do
        [ -s "$docs/$page" ] || die "$page was not installed"
    done
    "$python" -B "$source/tests/abi/documents.py" --installed "$docs"
    ;;
command_runs)
    "$prefix/bin/ckineto" --version | grep -q '[0-9]\.[0-9]' || die "no version"
    ;;
find_package_shared)
    by_cmake consumer.c ckineto::ckineto_shared
    check_links "$program" "moved.*libckineto\.so" yes
    check_program "$program"
    ;;
find_package_static)
    by_cmake consumer.c ckineto::ckineto_static
    check_links "$program" libckineto no
    check_program "$program"
    ;;
find_package_default_from_cxx)
    command -v c++ >/dev/null || { echo "no C++ compiler here"; exit 77; }
    by_cmake consumer.cc ckineto::ckineto
    check_program "$program"
    ;;
find_package_rt)
    by_cmake records_only.c ckineto::rt
    check_links "$program" "libckineto\.so" no
    check_links "$program" "moved.*libckineto-rt\.so" yes
    [ "$("$program")" = cpu_op ] || die "does not run"
    ;;
pkg_config_shared)
    by_pkg_config consumer.c ckineto
    check_links "$program" "moved.*libckineto\.so" yes
    check_program "$program"
    ;;
pkg_config_static)
    # Where only the archives are, -lckineto means them.
    cp -R "$prefix" "$mine/static"
    rm -f "$mine/static${lib#"$prefix"}"/*.so*
    export PKG_CONFIG_PATH="$mine/static${lib#"$prefix"}/pkgconfig"
    by_pkg_config consumer.c ckineto --static
    check_links "$program" libckineto no
    check_program "$program"
    ;;
pkg_config_static_next_to_shared)
    # As docs/tutorial/getting-started.md shows it: where both are, the archives are named in full.
    # shellcheck disable=SC2046
    "$cc" "$consumer/consumer.c" -o "$mine/consumer" \
        $(pkg-config --cflags --libs --static ckineto | sed 's/-l\(ckineto[a-z-]*\)/-l:lib\1.a/g')
    check_links "$mine/consumer" libckineto no
    check_program "$mine/consumer"
    ;;
pkg_config_rt)
    by_pkg_config records_only.c ckineto-rt
    check_links "$program" "libckineto\.so" no
    [ "$("$program")" = cpu_op ] || die "does not run"
    ;;
vendor_plugin)
    # As its README says, from a copy that is nowhere near our tree.
    cp -R "$source/examples/vendor-plugin" "$mine/source"
    cp -R "$prefix" "$mine/tree"
    "$cmake" -S "$mine/source" -B "$mine/build" -G Ninja -DCMAKE_PREFIX_PATH="$mine/tree" \
        -DCMAKE_C_FLAGS="-Wall -Wextra -Werror" >"$mine/log" 2>&1 || { cat "$mine/log"; die "does not configure"; }
    "$cmake" --build "$mine/build" >"$mine/log" 2>&1 || { cat "$mine/log"; die "does not build"; }
    plugin=$mine/build/acme-kineto.so command=$mine/tree/bin/ckineto
    unset KINETO_PLUGIN_LIB_DIR_PATH CKINETO_PLUGINS CKINETO_PLUGIN_DIR CKINETO_LIBRARY_PATH 2>/dev/null || :
    check_links "$plugin" ckineto no
    "$command" plugin list "$plugin" >"$mine/list"
    grep 'Acme' "$mine/list" | grep -q 'kernel 6' || { cat "$mine/list"; die "plugin list does not know it"; }
    "$command" plugin check "$plugin" >"$mine/check" || { cat "$mine/check"; die "it does not conform"; }
    beats() { # options…: a program of a fifth of a second has heart beats
        "$command" record -o "$mine/trace.json" "$@" -- sleep 0.2 >"$mine/log" 2>&1 ||
            { cat "$mine/log"; die "cannot be recorded"; }
        [ "$(grep -o '"name": *"heartbeat"' "$mine/trace.json" | wc -l)" -gt 10 ] ||
            { cat "$mine/log"; die "no heart beats: $*"; }
    }
    beats --plugin "$plugin"
    "$cmake" --install "$mine/build" --prefix "$mine/tree" >"$mine/log" || { cat "$mine/log"; exit 1; }
    [ -f "$mine/tree${lib#"$prefix"}/ckineto/plugins/acme-kineto.so" ] || die "was not installed"
    beats
    ;;
pkg_config_from_cxx)
    command -v c++ >/dev/null || { echo "no C++ compiler here"; exit 77; }
    # shellcheck disable=SC2046
    c++ -std=c++17 -Wall -Wextra -Werror "$consumer/consumer.cc" -o "$mine/consumer" \
        $(pkg-config --cflags --libs ckineto) -Wl,-rpath,"$lib"
    check_program "$mine/consumer"
    ;;
sonames)
    # A program names the library by its soname, and its functions by the version that they have.
    by_pkg_config consumer.c ckineto
    readelf -d "$program" | grep -q 'NEEDED.*\[libckineto\.so\.[0-9]*\]' || die "needs no soname"
    nm -D --with-symbol-versions "$program" | grep -q 'U kineto_session_start@CKINETO_' || die "no version"
    for file in "$lib"/libckineto.so "$lib"/libckineto-rt.so; do
        soname=$(readelf -d "$file" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
        [ "$(readlink "$file")" = "$soname" ] || die "$file leads to $(readlink "$file"), not $soname"
        [ "$(readlink "$lib/$soname")" = "$soname.${version#*.}" ] || die "$soname is not a link to the release"
    done
    ;;
no_cxx_runtime)
    # Neither by name nor by symbol, in anything that is installed.
    for file in "$prefix"/bin/ckineto "$lib"/*.so "$lib"/ckineto/*.so; do
        if ldd "$file" | grep -E 'libstdc\+\+|libc\+\+|libgcc_s'; then die "$file loads a C++ runtime"; fi
        if nm -D --undefined-only "$file" | grep -E ' (_Z|__cxa_(throw|begin_catch|allocate)|__gxx)'; then
            die "$file asks for C++"
        fi
    done
    for file in "$lib"/*.a; do
        if nm --undefined-only "$file" 2>/dev/null | grep -E ' (_Z|__cxa_(throw|begin_catch|allocate)|__gxx)'; then
            die "$file asks for C++"
        fi
    done
    ;;
directories_may_be_absolute)
    # As some distributions give them; seen from the .pc file, they are where they are.
    for libdir in "$mine/p/some/lib" "$mine/elsewhere/lib"; do
        "$cmake" -S "$source" -B "$mine/build" -G Ninja -DCKINETO_TESTS=OFF -DCKINETO_BENCH=OFF -DCKINETO_EXAMPLES=OFF \
            -DCMAKE_INSTALL_PREFIX="$mine/p" -DCMAKE_INSTALL_LIBDIR="$libdir" >"$mine/log" 2>&1 ||
            { cat "$mine/log"; die "does not configure"; }
        mkdir -p "$libdir/pkgconfig"
        cp "$mine"/build/*.pc "$libdir/pkgconfig"
        for module in ckineto ckineto-rt; do
            for pair in "prefix $mine/p" "libdir $libdir" "includedir $mine/p/include"; do
                said=$(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config --variable="${pair%% *}" $module)
                [ "$(realpath -m "$said")" = "${pair#* }" ] || die "$module: ${pair%% *} is $said, not ${pair#* }"
            done
        done
    done
    # A prefix stays one word on its way through make.
    make -n -C "$source" install CKINETO_INSTALL=0 PREFIX="$mine/two words" | grep -q -- "--prefix '$mine/two words'" ||
        die "make install takes a prefix for several words"
    ;;
add_subdirectory | fetch_content)
    # What is linked, that is: the rest is compiled in our own build.
    part="--target consumer" also= fetch=
    [ "$name" = add_subdirectory ] || fetch=-DFETCH=ON
    if command -v c++ >/dev/null; then
        part="$part consumer_cxx" also=-DALSO=records_only.cc
    fi
    by_cmake records_only.c ckineto::rt -DCKINETO_SOURCE="$source" -DCMAKE_C_FLAGS_DEBUG=-O0 $also $fetch
    for program in "$program" ${also:+"$program"_cxx}; do
        [ "$("$program")" = cpu_op ] || die "$program does not run"
    done
    ;;
add_subdirectory_whole)
    by_cmake consumer.c ckineto::ckineto -DCKINETO_SOURCE="$source"
    check_program "$program"
    ;;
*) die "no such test: $name" ;;
esac
