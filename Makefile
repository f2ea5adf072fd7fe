# A thin layer over the CMake presets: what a person types. `make` alone lists the targets.
#
#   CKINETO_INSTALL=0   do not install missing packages (packages.txt)
#   JOBS=N              parallel jobs, default: all processors
#   TEST_JOBS=N         tests at a time, default: one more
#   PREFIX=DIR          for `make install`, default /usr/local; DESTDIR is honoured
#   FUZZ_SECONDS=N      time for each fuzz target, default 60; MINUTES=N: the same in minutes
#   PAIRS=N             runs of each program with and without a recorder, default 5
#   FMT_FILES=…         only these for `make fmt`

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

CKINETO_INSTALL ?= 1
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# Tests wait about half of their time.
TEST_JOBS ?= $(shell expr $(JOBS) + 1)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= $(if $(MINUTES),$(shell expr 60 '*' $(MINUTES)),60)
PAIRS ?= 5
PROGRAM ?= clpeak --global-bandwidth --kernel-latency

# $(call packages,SECTION…): install what is missing.
packages = $(if $(filter 0,$(CKINETO_INSTALL)),true,./tools/install-packages $(1))
# $(call build,PRESET): configure and build into build/PRESET.
build = mkdir -p build; \
	cmake --preset $(1) >build/$(1)-configure.log 2>&1 || { cat build/$(1)-configure.log; exit 1; }; \
	grep 'ckineto [0-9]' build/$(1)-configure.log; \
	cmake --build --preset $(1) -j $(JOBS)
# $(call suite,PRESET): run its tests; the output stays in build/PRESET/ctest.log.
suite = echo "== tests: $(1)"; ctest --preset $(1) -j $(TEST_JOBS) --output-log build/$(1)-ctest.log

SOURCES = $(shell git ls-files '*.c' '*.h' 2>/dev/null || find include src plugins tests bench examples -name '*.[ch]')

.PHONY: help all demo demo2 test test-full test-peers test-programs test-report asan tsan fuzz analyze-code chaos soak valgrind cov bench bench-report fmt fmt-check tidy abi install deb tarball static \
	test-packages test-arm64 test-s390x clean

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

test: ## build and run every test: plain, then address+undefined and thread sanitizers
	@$(call packages,demo test)
	@$(call build,dev)
	@$(call suite,dev)
	@$(MAKE) asan tsan CKINETO_INSTALL=0
	@for p in dev asan tsan; do printf '%-5s ' $$p; grep 'tests passed' build/$$p-ctest.log; done

test-full: test ## the same, the slow tests, and all that the address sanitizer can run
	@ctest --preset full -L '^slow$$' -j $(JOBS)
	@ctest --preset asan-full -L '^(cli|check|cuda|example|profile)$$' -j $(TEST_JOBS)

test-peers: ## let other people's tools read our traces; they are fetched into build/peers
	@$(call packages,demo test)
	@$(call build,dev)
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch.sh build/peers/trace-processor || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_hta.sh build/peers/hta || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_arrow.sh build/peers/arrow || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_emission.sh build/peers/emission || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_torch.sh build/peers/torch || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_cupti.sh build/peers/cupti || test $$? = 77
	@! test -d build/peers/cupti/13 || { \
		cmake --preset dev "-DCKINETO_CUPTI_INCLUDE=$(CURDIR)/build/peers/cupti/12;$(CURDIR)/build/peers/cupti/13" \
			>build/dev-configure.log && cmake --build --preset dev -j $(JOBS); }
	@ctest --preset full -L '^(peer|cuda|nvtx)$$' --verbose

test-programs: ## record programs of others: do they notice, and what does it cost; the table is build/programs.md
	@$(call packages,demo test programs)
	@$(call build,release)
	@CKINETO=$(CURDIR)/build/release/bin/ckineto /usr/bin/python3 -B tests/programs/run.py \
		--pairs $(PAIRS) --table build/programs.md

test-report: ## the HTML report in a headless browser (node, chromium); pictures in build/report
	@$(call packages,demo test)
	@$(call build,dev)
	@tests/report/run build/dev/bin/ckineto build/report

asan: ## the tests under address and undefined behaviour sanitizers
	@$(call packages,demo test)
	@$(call build,asan)
	@$(call suite,asan)

tsan: ## the tests under the thread sanitizer
	@$(call packages,demo test)
	@$(call build,tsan)
	@$(call suite,tsan)

fuzz: ## fuzz every parser for FUZZ_SECONDS, or MINUTES (clang)
	@$(call packages,demo test dev)
	@$(call build,fuzz)
	@tools/fuzz build/fuzz/bin $(FUZZ_SECONDS)

cov: ## coverage of the tests, as build/coverage/index.html
	@$(call packages,demo test dev)
	@$(call build,coverage)
	@$(call suite,coverage)
	@gcovr --root . --filter src/ --filter plugins/ --print-summary build/coverage \
		--html-details build/coverage/index.html

bench: ## measure, one JSON line per result
	@$(call packages,demo bench)
	@$(call build,release)
	@tools/bench build/release/bin

bench-report: ## measure ourselves beside our peers, which are fetched; writes docs/peers.md and docs/images/peers.svg
	@$(call packages,demo bench peers)
	@$(call build,release)
	@test '$(CKINETO_INSTALL)' = 0 || bench/peers/fetch.sh build/peers/readers || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch.sh build/peers/trace-processor || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_hta.sh build/peers/hta || test $$? = 77
	@test '$(CKINETO_INSTALL)' = 0 || tests/peers/fetch_torch.sh build/peers/torch || test $$? = 77
	@/usr/bin/python3 -B bench/peers/run.py build/release/bin bench/peers/results.json
	@/usr/bin/python3 -B bench/peers/report.py bench/peers/results.json .

fmt: ## lay out the sources with clang-format
	@$(call packages,dev)
	@clang-format -i $(or $(FMT_FILES),$(SOURCES))

fmt-check: ## say which sources clang-format would change
	@clang-format --dry-run --Werror $(or $(FMT_FILES),$(SOURCES))

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
	@$(call packages,demo test dev analysis)
	@$(call build,dev)
	@JOBS=$(JOBS) tools/valgrind build/dev

tidy: ## clang-tidy over src, plugins and examples
	@$(call packages,demo test dev)
	@$(call build,dev)
	@clang-tidy --quiet -p build/dev $(filter src/%.c plugins/%.c examples/%.c,$(SOURCES))

abi: ## exported symbols, headers, layers, layout: the tests of the binary interface
	@$(call packages,demo test)
	@$(call build,dev)
	@ctest --preset dev -L '^abi$$' -j $(JOBS)

install: all ## install into PREFIX (DESTDIR is honoured)
	@cmake --install build/release --prefix $(PREFIX)

deb: ## Debian packages of what is here, as build/deb/packages/*.deb
	@$(call packages,demo packages)
	@$(call build,deb)
	@cd build/deb && rm -rf packages && cpack -G DEB >../deb-cpack.log || { cat ../deb-cpack.log; exit 1; }
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

test-arm64: all ## unit tests and answers about traces on arm64, emulated by qemu
	@$(call packages,test cross)
	@JOBS=$(JOBS) tests/cross/run arm64 build/arm64 build/release/bin/ckineto || test $$? = 77

test-s390x: all ## the same on s390x, which is big-endian
	@$(call packages,test cross)
	@JOBS=$(JOBS) tests/cross/run s390x build/s390x build/release/bin/ckineto || test $$? = 77

clean: ## remove what was built
	@rm -rf build demo
