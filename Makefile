# A thin layer over the CMake presets: what a person types. `make` alone lists the targets.
#
#   CKINETO_INSTALL=0   do not install missing packages (packages.txt)
#   JOBS=N              parallel jobs, default: all processors
#   TEST_JOBS=N         tests at a time, default: twice as many
#   PREFIX=DIR          for `make install`, default /usr/local; DESTDIR is honoured
#   FUZZ_SECONDS=N      time for each fuzz target, default 60; MINUTES=N: the same in minutes, of chaos and soak, too
#   PAIRS=N             runs of each program with and without a recorder, default 5
#   PROGRAM=…           what `make demo` records
#   WITH=test           `make test-chroot` runs the tests, too
#   SINCE=COMMIT        since when lines were changed that `make fmt` lays out, default HEAD

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

CKINETO_INSTALL ?= 1
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# Tests wait about half of their time.
TEST_JOBS ?= $(shell expr $(JOBS) '*' 2)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= $(if $(MINUTES),$(shell expr 60 '*' $(MINUTES)),60)
PAIRS ?= 5
PROGRAM ?= clpeak --global-bandwidth --kernel-latency

# $(call packages,SECTION…): install what is missing.
packages = $(if $(filter 0,$(CKINETO_INSTALL)),true,./tools/install-packages $(1))
# $(call build,PRESET[,BUILD-PRESET]): configure and build into build/PRESET.
build = mkdir -p build; \
	cmake --preset $(1) >build/$(1)-configure.log 2>&1 || { cat build/$(1)-configure.log; exit 1; }; \
	grep 'ckineto [0-9]' build/$(1)-configure.log; \
	cmake --build --preset $(or $(2),$(1)) -j $(JOBS); \
	$(call took,build $(or $(2),$(1)))
# $(call suite,PRESET): run its tests; the output stays in build/PRESET-ctest.log.
suite = echo "== tests: $(1)"; ctest --preset $(1) -j $(TEST_JOBS) --output-log build/$(1)-ctest.log; \
	$(call took,tests $(1): $$(sed -n 's/ tests passed.*out of / of /p' build/$(1)-ctest.log))
# $(call cross,ARCHITECTURE,PRESET[,--few]): tests on another processor, beside the command of PRESET.
cross = JOBS=$(JOBS) tests/cross/run $(1) build/$(1)$(3:--%=-%) build/$(2)/bin/ckineto $(3) || test $$? = 77; \
	$(call took,tests $(1)$(3))
# $(call memcheck,[--few]): programs of the build `dev` under valgrind.
memcheck = JOBS=$(JOBS) tools/valgrind build/dev $(1); $(call took,valgrind$(1:--%=-%))
# $(call took,WHAT): a line for the list at the end: the time of one line of a recipe, which has a shell of its
# own, and of the processors.
took = times >build/.cpu; printf '%5d s, %5d s of processors: %s\n' $$SECONDS \
	"$$(tail -n 1 build/.cpu | tr ms '  ' | awk '{ print int($$1 * 60 + $$2 + $$3 * 60 + $$4) }')" "$(1)" >>build/times

SOURCES = $(shell git ls-files '*.c' '*.h' 2>/dev/null || find include src plugins tests bench examples -name '*.[ch]')

.PHONY: help all demo demo2 test test-full test-chroot test-peers test-torch test-programs test-budget test-report asan tsan fuzz cov \
	bench bench-report fmt fmt-check analyze-code chaos soak valgrind tidy abi install deb tarball static \
	test-packages wheel test-wheel test-arm64 test-s390x gpu-bundle clean

help: ## this list
	@echo "make TARGET:"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' Makefile
	@echo "Missing Debian packages are installed first; CKINETO_INSTALL=0 skips that."

all: ## build everything, optimised, into build/release
	@$(call packages,demo)
	@$(call build,release)

demo: all ## record a real OpenCL program and show what it did
	@mkdir -p demo
	build/release/bin/ckineto record -o demo/trace.json -- $(PROGRAM)

demo2: ## train a small transformer, profiled as PyTorch programs are, and show what it did
	@$(call packages,demo demo2)
	@$(call build,release)
	@rm -rf build/release/demo2
	build/release/bin/transformer --profile build/release/demo2
	@echo
	build/release/bin/transformer --profile build/release/demo2/sim --device sim

test: ## what a change has to pass, in 10 minutes: all plain, the core under sanitizers, a browser
	@mkdir -p build; : >build/times
	@$(call packages,demo test torch); $(call took,packages)
	@{ $(call packages,browser valgrind); } >build/packages.log 2>&1 & later=$$!; \
		$(call build,dev); wait $$later || { cat build/packages.log; exit 1; }
	@$(call suite,dev)
	@$(call build,asan)
	@$(call suite,asan)
	@$(call build,tsan)
	@$(call suite,tsan)
	@$(call memcheck,--few)
	@cat build/times

test-full: test ## the same, and the rest: slow tests, all that sanitizers and valgrind can run, two processors, reports
	@ctest --preset full -L '^slow$$' -j $(JOBS)
	@$(MAKE) asan tsan valgrind test-report test-arm64 test-s390x
	@cat build/times

test-chroot: ## what the README says, in a fresh Debian 12 (root, debootstrap); WITH=test: `make test`, too
	@$(call packages,chroot)
	@WITH='$(WITH)' tests/packages/run build/chroots source || test $$? = 77

test-peers: ## let other people's tools read our traces; they are fetched into build/peers
	@$(call packages,demo test)
	@$(call build,dev)
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch.sh build/peers/trace-processor || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_hta.sh build/peers/hta || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_arrow.sh build/peers/arrow || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_mcp.sh build/peers/mcp || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_emission.sh build/peers/emission || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_torch.sh build/peers/torch || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_training.sh build/peers/training build/peers/torch || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_cupti.sh build/peers/cupti || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_opencl.sh build/peers/opencl || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_vulkan.sh build/peers/vulkan || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_openmp.sh build/peers/openmp || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_mpi.sh build/peers/mpi || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_sycl.sh build/peers/sycl || test $$? = 77
	@! test -d build/peers/cupti/13 || { \
		cmake --preset dev "-DCKINETO_CUPTI_INCLUDE=$(CURDIR)/build/peers/cupti/12;$(CURDIR)/build/peers/cupti/13" \
			>build/dev-configure.log && cmake --build --preset dev -j $(JOBS); }
	@ctest --preset full -L '^(peer|cuda|nvtx)$$' --verbose
	@$(MAKE) test-torch

test-torch: ## PyTorch's own tests, models, plug-ins and requests on ckineto, for VERSIONS="2.6.0 2.15.0"; an hour, 2 GB each
	@$(call packages,demo test torch)
	@$(call build,release)
	@test '$(CKINETO_INSTALL)' = 0 || tools/build-bridges -j $(JOBS) build/bridges
	@tests/torch_peers/run build/release $(VERSIONS) || test $$? = 77

test-programs: ## record programs of others: do they notice, and what does it cost; the table is build/programs.md
	@$(call packages,demo test programs)
	@$(call build,release)
	@CKINETO=$(CURDIR)/build/release/bin/ckineto /usr/bin/python3 -B tests/programs/run.py \
		--pairs $(PAIRS) --table build/programs.md

test-budget: ## does --budget 1% hold, from outside: hashcat alone and recorded, BUDGET_PAIRS in turn, default 10
	@$(call packages,demo test programs)
	@$(call build,release)
	@CKINETO=$(CURDIR)/build/release/bin/ckineto /usr/bin/python3 -B tests/programs/budget.py \
		--pairs $(or $(BUDGET_PAIRS),10)

test-report: ## the HTML report in a headless browser (node, chromium); pictures in build/report
	@$(call packages,demo test browser)
	@$(call build,dev)
	@tests/report/run build/dev/bin/ckineto build/report

asan: ## all tests that can run under the address and undefined behaviour sanitizers
	@$(call packages,demo test)
	@$(call build,asan,asan-full)
	@$(call suite,asan-full)

tsan: ## all tests that can run under the thread sanitizer
	@$(call packages,demo test)
	@$(call build,tsan,tsan-full)
	@$(call suite,tsan-full)

fuzz: ## fuzz every parser for FUZZ_SECONDS, or MINUTES (clang)
	@$(call packages,demo test dev)
	@$(call build,fuzz)
	@tools/fuzz build/fuzz/bin $(FUZZ_SECONDS)

cov: ## coverage of the tests, as build/coverage/index.html; fails below 90 % of src
	@$(call packages,demo test dev)
	@$(call build,coverage)
	@find build/coverage -name '*.gcda' -delete
	@set +e; $(call suite,coverage); ! grep -q 'tests FAILED' build/coverage-ctest.log || \
		echo "some tests fail with counters in the way: build/coverage-ctest.log"
	@gcovr --root . --filter src/ build/coverage --gcov-ignore-parse-errors -j $(JOBS) --print-summary \
		--fail-under-line 90 --html-details build/coverage/index.html --txt build/coverage/files.txt \
		2>build/coverage/gcovr.log || { tail -n 1 build/coverage/gcovr.log; exit 1; }

bench: ## measure, one JSON line per result
	@$(call packages,demo bench)
	@$(call build,release)
	@tools/bench build/release/bin

bench-report: ## measure ourselves beside our peers, which are fetched; writes docs/project/peers.md and docs/images/peers.svg
	@$(call packages,demo bench peers)
	@$(call build,release)
	@test '$(CKINETO_INSTALL)' = 0 || bench/peers/fetch.sh build/peers/readers || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch.sh build/peers/trace-processor || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_hta.sh build/peers/hta || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_torch.sh build/peers/torch || test $$? = 77
	@/usr/bin/python3 -B bench/peers/run.py build/release/bin bench/peers/results.json
	@/usr/bin/python3 -B bench/peers/report.py bench/peers/results.json .

fmt: ## lay out with clang-format what was changed since SINCE, default HEAD
	@$(call packages,dev)
	@git clang-format --extensions c,h $(or $(SINCE),HEAD) || test $$? = 1

fmt-check: ## say what clang-format would change of that
	@git clang-format --diff --extensions c,h $(or $(SINCE),HEAD)

analyze-code: ## clang-tidy, cppcheck and gcc's analyser over src, plugins and examples
	@$(call packages,demo test dev analysis)
	@$(call build,dev)
	@JOBS=$(JOBS) tools/analyze-code build/dev

chaos: ## kill, stop, starve and interrupt programs and recorders for MINUTES, default 5
	@$(call packages,demo test)
	@$(call build,dev)
	@CKINETO=build/dev/bin/ckineto CHAOS_PROGRAM=build/dev/bin/chaos_program \
		CHAOS_CLOCK=$(CURDIR)/build/dev/tests/chaos/chaos_clock.so \
		python3 -B tests/chaos/chaos.py --seconds $(shell expr 60 '*' $(or $(MINUTES),5))

soak: ## record for MINUTES, default 60: memory is flat, every event is delivered or counted
	@$(call packages,demo test)
	@$(call build,dev)
	@CKINETO=build/dev/bin/ckineto CHAOS_PROGRAM=build/dev/bin/soak_program \
		python3 -B tests/chaos/soak.py --minutes $(or $(MINUTES),60)

valgrind: ## unit tests that one thread does, and programs that record, under valgrind's memcheck
	@$(call packages,demo test valgrind)
	@$(call build,dev)
	@$(call memcheck)

tidy: ## clang-tidy over src, plugins and examples
	@$(call packages,demo test dev)
	@$(call build,dev)
	@clang-tidy --quiet -p build/dev $(filter src/%.c plugins/%.c examples/%.c,$(SOURCES))

abi: ## exported symbols, headers, layers, layout: the tests of the binary interface
	@$(call packages,demo test)
	@$(call build,dev)
	@ctest --preset dev -L '^abi$$' -j $(JOBS)

install: all ## install into PREFIX (DESTDIR is honoured)
	@cmake --install build/release --prefix '$(PREFIX)'

deb: ## Debian packages of what is here, as build/deb/packages/*.deb
	@$(call packages,demo packages)
	@JOBS=$(JOBS) tools/deb build/deb
	@ls build/deb/packages/*.deb

tarball: all ## one archive that may be unpacked anywhere, as build/release/packages/*.tar.gz
	@cd build/release && rm -rf packages && cpack -G TGZ >../release-cpack.log || { cat ../release-cpack.log; exit 1; }
	@ls build/release/packages/*.tar.gz

static: ## a command for reading and analysing that needs no library at all: build/static/bin/ckineto
	@$(call packages,demo)
	@$(call build,static)

test-packages: deb tarball static ## use packages, tarball and static command in fresh Debians (root, debootstrap)
	@$(call packages,chroot)
	@tests/packages/run build/chroots || test $$? = 77

wheel: ## packages for Python's registry, for x86-64 and arm64, and an sdist, as build/wheel/dist/*
	@$(call packages,demo wheel)
	@JOBS=$(JOBS) tools/build-wheel

test-wheel: wheel ## install them into fresh environments of several Pythons, and on an older system (root)
	@tests/wheel/run build/wheel || test $$? = 77

test-arm64: all ## unit tests and answers about traces on arm64, emulated by qemu
	@$(call packages,test arm64)
	@$(call cross,arm64,release)

test-s390x: all ## the same on s390x, which is big-endian
	@$(call packages,test s390x)
	@$(call cross,s390x,release)

gpu-bundle: ## build/gpu-bundle: a build of a few MB to carry to a machine with a GPU; it needs the C library and zlib alone
	@$(call packages,demo)
	@mkdir -p build/gpu-pkgconfig
	@cp "$$(pkg-config --variable=pcfiledir zlib)/zlib.pc" build/gpu-pkgconfig/
	@PKG_CONFIG_LIBDIR=$(CURDIR)/build/gpu-pkgconfig cmake --preset static -B build/gpu-release -DCKINETO_STATIC_COMMAND=OFF \
		-DCKINETO_OPENCL=OFF >build/gpu-configure.log 2>&1 || { cat build/gpu-configure.log; exit 1; }
	@cmake --build build/gpu-release -j $(JOBS)
	@rm -rf build/gpu-bundle; mkdir -p build/gpu-bundle/lib
	@cp -a build/gpu-release/bin build/gpu-bundle/; cp -a build/gpu-release/lib/*.so* build/gpu-release/lib/ckineto build/gpu-bundle/lib/
	@find build/gpu-bundle -type f -exec sh -c 'head -c 4 "$$1" | grep -q ELF && strip --strip-unneeded "$$1"' _ {} ';'
	@du -sh build/gpu-bundle
	@echo "carry build/gpu-bundle, then: CKINETO=build/gpu-bundle/bin/ckineto tests/gpu/run.sh (docs/project/gpu-results.md)"

clean: ## remove what was built
	@rm -rf build demo
