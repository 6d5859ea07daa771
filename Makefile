# One command for each thing a contributor does; .ci/run is all of them on a clean machine.
PYTHON ?= python
C_FILES = $(shell git ls-files 'csrc/*.c' 'csrc/*.h' 'csrc/*.inc' 'tests/clib/*.c')
SANITIZED = build/sanitized
LIBRARY = build/libtpugraphs.a
include csrc/flags.mk
ifeq ($(filter x86_64 amd64,$(shell uname -m)),)
ELSEWHERE = $(filter-out csrc/kernels/isa_baseline.c,$(wildcard csrc/kernels/isa_*.c))
endif
OBJECTS = $(patsubst %.c,build/lib/%.o,$(filter-out csrc/py/% csrc/fuzz/% $(ELSEWHERE),$(wildcard csrc/*/*.c)))

build:
	TPUGRAPHS_WERROR=1 $(PYTHON) setup.py -q build_ext --inplace
test: build
	$(PYTHON) -m pytest
# csrc without py/; programs link it with -fopenmp -lm. The compiler is not shown where Python's headers are.
lib: $(LIBRARY)
$(LIBRARY): $(OBJECTS)
	@rm -f $@
	@$(AR) rcs $@ $^
build/lib/%.o: %.c csrc/flags.mk
	@mkdir -p $(@D)
	$(CC) $(CORE_FLAGS) -fPIC $(WARNINGS) -Werror $(FLAGS_$(notdir $*)) -MMD -MP -c -o $@ $<
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

.PHONY: build lib test format lint types tables docs notebooks parity bench bench-quick sanitize fuzz wheels clean
