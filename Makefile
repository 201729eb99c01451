# Everything starts here: `make demo` and `make test` need only python3 (3.11 or newer) and a network; a C compiler
# makes them fast. All state is in .venv/ and build/; `make clean` removes both.

PYTHON ?= python3
JOBS ?= auto
VENV := .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest -n $(JOBS)
PIP := $(PY) -m pip --disable-pip-version-check --no-input -q
CHECKED := setup.py src tests tools $(wildcard benchmarks)
SOURCES := $(shell find src -name '*.py' -o -name '*.toml' -o -name '*.fio' -o -name '*.typed' 2>/dev/null)
export PIP_ROOT_USER_ACTION = ignore
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help demo test test-slow check format bench bench-instructions accuracy bless compiled dev-compile clean FORCE

help:
	@echo 'make demo                run the main job: the first thing to try'
	@echo 'make test | test-slow    the tests (minutes) | the long ones'
	@echo 'make check | format      ruff and mypy | let ruff rewrite'
	@echo 'make compiled            install the compiled package into .venv (the targets above do it themselves)'
	@echo 'make dev-compile         compile fast, less optimised, into build/dev: PYTHONPATH=build/dev'
	@echo 'make bench | bench-instructions | accuracy    speed, instruction counts, docs/accuracy.md'
	@echo 'make bless               rewrite the golden files; read the diff before you commit it'
	@echo 'make clean               remove .venv and build'

demo: compiled
	@$(PY) -m blktwin.lab.demo

test: compiled $(VENV)/dev.stamp
	@$(PYTEST)

# pytest's 5 is "no test is marked slow".
test-slow: compiled $(VENV)/dev.stamp
	@BLKTWIN_HYPOTHESIS=slow $(PYTEST) -m slow || [ $$? -eq 5 ]

check: $(VENV)/dev.stamp
	@$(PY) -m ruff check $(CHECKED)
	@$(PY) -m ruff format --check $(CHECKED)
	@$(PY) -m mypy $(CHECKED)

format: $(VENV)/dev.stamp
	@$(PY) -m ruff check --fix $(CHECKED)
	@$(PY) -m ruff format $(CHECKED)

bench: compiled $(VENV)/dev.stamp
	@$(PY) -m benchmarks

bench-instructions: compiled $(VENV)/dev.stamp
	@PYTHONHASHSEED=0 $(PY) -m benchmarks.instructions

accuracy: compiled
	@$(PY) -m blktwin.lab.accuracy > build/accuracy.md && mv build/accuracy.md docs/accuracy.md

bless: compiled $(VENV)/dev.stamp
	@$(PY) -m pytest -q --bless -m golden; git diff --stat -- tests

compiled: build/installed.stamp

dev-compile: $(VENV)/run.stamp
	@BLKTWIN_DEV=1 BLKTWIN_COMPILE=1 $(PY) -W ignore setup.py -q build --build-lib build/dev --build-temp build/temp-dev

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis

build/sources.txt: FORCE | $(VENV)/created.stamp
	@$(PY) tools/fingerprint.py $@

build/installed.stamp: $(VENV)/run.stamp build/sources.txt setup.py pyproject.toml $(SOURCES)
	@echo 'building blktwin ...'
	@rm -rf build/dist
	@$(PY) -W ignore setup.py -q bdist_wheel --dist-dir build/dist
	@$(PIP) install --no-index --no-deps --force-reinstall build/dist/*.whl
	@$(PY) -m blktwin.buildinfo
	@touch $@

$(VENV)/created.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo 'blktwin needs Python 3.11 or newer as $(PYTHON): make PYTHON=python3.12'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo 'Python has no venv here: apt-get install python3-venv'; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# One line when the network cannot give a package; pip's own words stay in the log.
define install
@echo 'installing what blktwin needs ($(1)) into $(VENV) ...'
@mkdir -p build
@$(PY) tools/requirements.py $(1) > build/requirements-$(1).txt
@$(PIP) install --retries 2 -r build/requirements-$(1).txt > build/pip-$(1).log 2>&1 || \
    { echo "pip could not install the requirements: $$(grep -m 1 ^ERROR build/pip-$(1).log) (see build/pip-$(1).log)"; exit 1; }
@touch $@
endef

$(VENV)/run.stamp: $(VENV)/created.stamp pyproject.toml tools/requirements.py
	$(call install,run)

$(VENV)/dev.stamp: $(VENV)/run.stamp
	$(call install,dev)
