# One command for each thing a contributor does. `make check` is what CI runs, in pieces.
PYTHON ?= python

build:
	$(PYTHON) setup.py -q build_ext --inplace
test: build
	$(PYTHON) -m pytest
format:
	ruff check --fix . && ruff format . && clang-format -i $$(git ls-files 'csrc/*.c' 'csrc/*.h' 'csrc/*.inc')
lint:
	ruff check . && ruff format --check . && clang-format --dry-run --Werror $$(git ls-files 'csrc/*.c' 'csrc/*.h' 'csrc/*.inc') && codespell
fuzz:
	csrc/fuzz/run.sh 30
types:
	mypy --strict tpugraphs

.PHONY: build test format lint fuzz types
