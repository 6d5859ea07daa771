# One command for each thing a contributor does; .ci/run is all of them on a clean machine.
PYTHON ?= python
C_FILES = $(shell git ls-files 'csrc/*.c' 'csrc/*.h' 'csrc/*.inc' 'tests/clib/*.[ch]' 'include/*.h' 'examples/*.c*')
SANITIZED = build/sanitized
include csrc/flags.mk
# Of the C library: SERIAL=1 leaves OpenMP out, SMALL=1 all instruction sets but the machine's plainest; OPT=-Os.
OBJCOPY ?= objcopy
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
ABI = $(shell sed -n 's/^.define TG_ABI_VERSION \([0-9]*\).*/\1/p' include/tpugraphs.h)
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
LIB = build/lib$(if $(SERIAL),-serial)$(if $(SMALL),-small)$(OPT)
LIBRARY = $(if $(SERIAL)$(SMALL)$(OPT),$(LIB),build)/libtpugraphs.a
INSTALLED = $(LIB)/installed
LIB_FLAGS = $(if $(SERIAL),$(filter-out -fopenmp,$(CORE_FLAGS)) -Wno-unknown-pragmas -Wno-unused,$(CORE_FLAGS)) $(LIBRARY_FLAGS)
LIB_FLAGS += -Wno-missing-field-initializers $(if $(SMALL),-DTG_BASELINE_ONLY) $(OPT) -fPIC
LIB_FLAGS += $(if $(CLANG),-Wno-unknown-pragmas -Wno-pass-failed)
# A small library scores, and does no more; OPS and STEPS, if given, are all that its rankers have, BF16=1 their precision.
KERNELS = $(shell sed -n 's/^ *K.\([a-z0-9_]*\),.*/\1/p' csrc/kernels/kernels.h)
SHARED_OPS = $(shell grep -L '^const tg_op ' csrc/ops/*.c) $(wildcard csrc/ops/*.h)
NAMED = $(if $(OPS),$(SCORING_KERNELS) $(shell grep -oh 'k->[a-z0-9_]*' $(SHARED_OPS) $(OPS:%=csrc/ops/%.c) | sed 's/k->//'),$(KERNELS))
TRAINS = $(TRAINING_KERNELS) $(if $(OPS),$(if $(filter $(TURNED_OPS),$(OPS)),,gemm_tn))
UNUSED = $(filter-out $(filter-out $(TRAINS),$(NAMED)),$(KERNELS))
ifneq ($(SMALL),)
LIB_FLAGS += -DTG_SCORES_ONLY -Wno-unused -fno-asynchronous-unwind-tables -fmerge-all-constants -include $(LIB)/chosen.h
LIB_FLAGS += $(if $(OPS),-DTG_NETWORKS_ONLY $(if $(BF16),,-DTG_NO_BF16))
CHOSEN = $(LIB)/chosen.h
endif
COMMA = ,
LIB_LINKS = $(if $(SERIAL),,-fopenmp) -lm -lpthread
CLANG = $(findstring clang,$(shell $(CC) --version))
GOMP = $(if $(CLANG),-lomp,-lgomp)
ifneq ($(if $(SMALL),,$(filter x86_64-% amd64-%,$(shell $(CC) -dumpmachine))),)
ELSEWHERE =
else
ELSEWHERE = $(filter-out csrc/kernels/isa_baseline.c,$(wildcard csrc/kernels/isa_*.c))
endif
OBJECTS = $(patsubst %.c,$(LIB)/%.o,$(filter-out csrc/py/% csrc/fuzz/% $(ELSEWHERE),$(wildcard csrc/*/*.c)))

build:
	TPUGRAPHS_WERROR=1 $(PYTHON) setup.py -q build_ext --inplace
test: build
	$(PYTHON) -m pytest
# csrc without py/; programs link it with -fopenmp -lm. The compiler is not shown where Python's headers are.
lib: $(LIBRARY)
$(LIBRARY): $(OBJECTS)
	@rm -f $@
	@$(AR) rcs $@ $^
$(LIB)/chosen.h: Makefile csrc/flags.mk csrc/kernels/kernels.h
	@mkdir -p $(@D) && rm -f $@
	@for name in $(UNUSED); do echo "#define TG_NO_$$name ~,"; done >$@
	@if [ -n "$(OPS)" ]; then echo "#define TG_OP_LIST(OP)" $$(for op in $(OPS); do echo "OP($$op)"; done); fi >>$@
	@if [ -n "$(STEPS)" ]; then echo "#define TG_STEP_LIST(S)" $$(for step in $(STEPS); do echo "S($$step)"; done); fi >>$@
$(LIB)/%.o: %.c csrc/flags.mk $(CHOSEN)
	@mkdir -p $(@D)
	$(CC) $(WARNINGS) -Werror $(LIB_FLAGS) $(FLAGS_$(notdir $*)) -MMD -MP -c -o $@ $<
# What is installed shows the functions of include/tpugraphs.h alone.
$(INSTALLED)/libtpugraphs.a: $(OBJECTS)
	@mkdir -p $(@D) && rm -f $@
	$(LD) -r --unique -o $(@D)/tpugraphs.o $^
	$(OBJCOPY) --localize-hidden $(@D)/tpugraphs.o
	@$(AR) rcs $@ $(@D)/tpugraphs.o
$(INSTALLED)/libtpugraphs.so.$(ABI): $(OBJECTS)
	@mkdir -p $(@D)
	$(CC) -shared $(if $(SMALL),-s -Wl$(COMMA)-z$(COMMA)noseparate-code) -Wl,-soname,$(@F) -Wl,--gc-sections -Wl,-z,defs -o $@ $^ $(LIB_LINKS)
install: $(INSTALLED)/libtpugraphs.a $(INSTALLED)/libtpugraphs.so.$(ABI)
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/cmake/tpugraphs
	install -m 644 include/tpugraphs.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $(INSTALLED)/libtpugraphs.a $(DESTDIR)$(LIBDIR)
	install -m 755 $(INSTALLED)/libtpugraphs.so.$(ABI) $(DESTDIR)$(LIBDIR)
	ln -sf libtpugraphs.so.$(ABI) $(DESTDIR)$(LIBDIR)/libtpugraphs.so
	for file in pkgconfig/tpugraphs.pc cmake/tpugraphs/tpugraphs-config.cmake \
		cmake/tpugraphs/tpugraphs-config-version.cmake; do \
		sed 's|@PREFIX@|$(PREFIX)|;s|@LIBDIR@|$(LIBDIR)|;s|@VERSION@|$(VERSION)|;s|@ABI@|$(ABI)|;s|@LINKS@|$(LIB_LINKS:-fopenmp=$(GOMP))|' \
			release/clib/$$(basename $$file) >$(DESTDIR)$(LIBDIR)/$$file || exit 1; \
	done
-include $(OBJECTS:.o=.d)
format:
	ruff check --fix . && ruff format . && clang-format -i $(C_FILES)
lint:
	ruff check . && ruff format --check . && clang-format --dry-run --Werror $(C_FILES) && codespell
types: build
	mypy --strict tpugraphs && mypy --strict tpugraphs/__init__.py tpugraphs/kernels/__init__.py tpugraphs/torch/__init__.py
	$(PYTHON) -m mypy.stubtest --mypy-config-file pyproject.toml tpugraphs._core
	$(PYTHON) -m pytest tests/test_types.py
tables: build
	PYTHONPATH=. $(PYTHON) docs/tables.py
	PYTHONPATH=. $(PYTHON) docs/solutions.py
	$(PYTHON) docs/pictures.py
	PYTHONPATH=. $(PYTHON) docs/stubs.py
# The site, in build/docs/index.html; needs `pip install '.[docs]'` and nothing else.
docs: build
	PYTHONPATH=. $(PYTHON) -m sphinx -q -W -j auto docs build/docs
	$(PYTHON) docs/links.py build/docs
# Outputs of the notebooks, which are stored and shown by the site: some minutes, and `.[test]`; PyTorch for one section of 05.
notebooks: build
	PYTHONPATH=$(CURDIR) $(PYTHON) docs/tutorials.py $(ONLY)
parity: build
	$(PYTHON) -m pytest -m parity
bench: build
	$(PYTHON) -m benchmarks --out build/benchmarks
bench-quick: build
	$(PYTHON) -m benchmarks --quick --out build/benchmarks-quick
sanitize:
	mkdir -p $(SANITIZED) && git ls-files -z | xargs -0 cp --parents -u -t $(SANITIZED)
	cd $(SANITIZED) && TPUGRAPHS_SANITIZE=1 $(PYTHON) setup.py -q build_ext --inplace
	cd $(SANITIZED) && LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
		PYTHONMALLOC=malloc $(PYTHON) -m pytest -p no:cacheprovider
fuzz:
	sh csrc/fuzz/run.sh 30
# Both wheels and the source distribution, into dist/; needs `pip install '.[release]'`. See docs/releasing.md.
wheels:
	$(PYTHON) release/wheels.py
clean:
	rm -rf build dist *.egg-info tpugraphs/_core*.so
	git ls-files --others --ignored --exclude-standard 'tpugraphs/*.pyi' | xargs rm -f

.PHONY: build lib install test format lint types tables docs notebooks parity bench bench-quick sanitize fuzz wheels clean
