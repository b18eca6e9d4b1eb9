# The two commands a new user needs are `make demo` and `make test`; each sets
# up what is missing (tools/setup). The rest is for people who change the code.
#
#   make demo     build the program, then plan and train a small network
#   make test     build everything and run the tests
#   make fast     the same with the fast tests only, which take a minute
#   make core     build and test all but runtime/: neither LibTorch nor MPI
#   make build    build everything; the program is build/pipewright
#   make install  install program and library into PREFIX (/usr/local)
#   make check    test, then formatting, fuzzing, and all under sanitizers
#   make long     the tests that `make test` leaves out for their length
#   make bench [QUICK=1]  run the benchmarks
#   make bench-peers  our runtime against torch.distributed.pipelining
#   make convergence [QUICK=1]  train with every method, and compare
#   make results  print the papers' tables again, and a page for each paper
#   make format   format the sources
#   make clean    remove what was built (not .venv)

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 20
PREFIX ?= /usr/local
CTEST = ctest --parallel $(JOBS) --output-on-failure --timeout 600

# Data-dependent tests are skipped, with a printed reason, where it is not set.
ifndef PIPEWRIGHT_DATA
  ifneq ($(wildcard ../shared/data),)
    export PIPEWRIGHT_DATA := $(abspath ../shared/data)
  endif
endif

# Clones in different folders share the compiler cache.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.PHONY: demo test fast long core configure build install check bench bench-peers convergence results format format-check asan tsan fuzz clean

configure:
	@tools/setup
	@Torch_DIR=$$(tools/libtorch) cmake --preset release

build: configure
	@cmake --build build --parallel $(JOBS)

demo:
	@JOBS=$(JOBS) tools/demo

test: build
	@$(CTEST) --test-dir build --label-exclude long

fast: build
	@$(CTEST) --test-dir build --label-regex fast

long: build
	@$(CTEST) --test-dir build --label-regex long --timeout 3600

install: configure
	@cmake --build build --parallel $(JOBS) --target installed
	@cmake --install build --prefix $(PREFIX)

core:
	@tools/setup core
	@cmake --preset core
	@cmake --build build-core --parallel $(JOBS)
	@$(CTEST) --test-dir build-core --label-exclude long

check: test format-check fuzz asan tsan

bench: build
	@cmake --build build --parallel $(JOBS) --target benchmarks
	@tools/bench build $(if $(QUICK),--quick)

bench-peers: build
	@cmake --build build --parallel $(JOBS) --target pipewright_peer
	@$$([ -x .venv/bin/python3 ] && echo .venv/bin/python3 || echo python3) \
	  tools/bench-peers build

convergence: build
	@QUICK=$(QUICK) experiments/convergence/run

results: build
	@tools/results build

format:
	@tools/setup check
	@tools/format

format-check:
	@tools/setup check
	@tools/format --check

# A test asks for more memory than there is, others preload a library. On
# aarch64 the search for leaks takes seconds for each process: it is for tests
# that are one, not for those that start programs.
ONE_PROCESS = ^(base|model|cluster|profile|plan|schedules|planners|simulate|estimate|timeline|report|runtime|crash|mpi)/
asan: export ASAN_OPTIONS = allocator_may_return_null=1:verify_asan_link_order=0
asan: export LSAN_OPTIONS = suppressions=$(CURDIR)/tests/leaks.txt
asan:
	@tools/setup
	@Torch_DIR=$$(tools/libtorch) cmake --preset asan
	@cmake --build build-asan --parallel $(JOBS)
	@$(CTEST) --test-dir build-asan --label-exclude long --timeout 1800 \
	  --tests-regex "$(ONE_PROCESS)"
	@ASAN_OPTIONS=$(ASAN_OPTIONS):detect_leaks=0 $(CTEST) --test-dir build-asan \
	  --label-exclude long --timeout 1800 --exclude-regex "$(ONE_PROCESS)"

tsan: export TSAN_OPTIONS = allocator_may_return_null=1:suppressions=$(CURDIR)/tests/races.txt
# OpenMP's threads in LibTorch meet at barriers that the sanitizer does not see.
tsan: export OMP_NUM_THREADS = 1
tsan:
	@tools/setup
	@Torch_DIR=$$(tools/libtorch) cmake --preset tsan
	@cmake --build build-tsan --parallel $(JOBS)
	@$(CTEST) --test-dir build-tsan --label-exclude long --timeout 3600

# Each reader's fuzz target, FUZZ_SECONDS seconds each, on all cores.
fuzz:
	@tools/setup check
	@cmake --preset fuzz
	@cmake --build build-fuzz --target fuzz_targets --parallel $(JOBS)
	@tools/fuzz build-fuzz $(FUZZ_SECONDS) $(JOBS)

clean:
	rm -rf build build-*
