# `make demo` and `make test` set up what they need in .venv; `make help` lists the rest.
#
#   PYTHON=python3.12   the Python that .venv is made from (default: the first suitable one found)
#   VENV=dir            where the virtual environment goes
#   PY=python3          use this Python as it is and set up nothing (a machine with the packages installed)
#   ARGS='-k swizzle'   more arguments for pytest
#   LIT_ARGS=-Dall      more arguments for lit
#   SEED=1 COUNT=100    which random kernels `make hunt` draws, and how many
#   ARCH=aarch64        the machine that `make resolve` asks pip about
#   GPU_JOBS=8          device tests at a time (with pytest-xdist; else one after the other)

PYTHON ?=
VENV := .venv
EXTRAS := test
PY := $(VENV)/bin/python
ARGS :=
LIT_ARGS :=
GPU_JOBS := 8
ARCH := aarch64
SEED := 1
COUNT := 100

# A process for each core. `worksteal` gives each a run of neighbours, which share what a file or a folder compiled.
PARALLEL := -n logical --maxprocesses=16 --dist=worksteal

# Not `python -m lit.main`, which does nothing and succeeds.
LIT = $(PY) -c "from lit.main import main; main()"

ifeq ($(origin PY),command line)
setup :=
docs-setup :=
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
else
setup := $(VENV)/.installed
docs-setup := $(VENV)/.installed-docs
endif

# $(call step,NAME,COMMAND): a headline, the command, and a plain statement of which tool failed. pytest
# goes without: its own last line says it, and is meant to be the last.
step = @echo '== $(1)'; $(2) || { echo; echo 'FAILED: $(1)   ($(2))'; exit 1; }

# Some images forbid Python to keep what it compiled: each process that the tests start would compile nvdsl again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-upstream lint lit pytest unit pages gpu-test stress sanitize bench mutants hunt
.PHONY: docs docs-links wheel resolve clean distclean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(setup)  ## make .venv and install nvdsl with its test tools into it

demo: $(setup)  ## chapter 4's GEMM: on a Hopper GPU if there is one, else in the simulator
	@$(PY) chapters/ch4_multistage_gemm.py

# mypy has one process, and lit's longest tests come first: beside each other they leave no core idle.
test: $(setup)  ## everything that needs no GPU: ruff, mypy, lit, pytest
	$(call step,ruff,$(PY) -m ruff check --output-format=concise .)
	@mkdir -p build; $(PY) -m mypy >build/mypy.log 2>&1 & mypy=$$!; \
	echo '== lit'; $(LIT) -v $(LIT_ARGS) tests/lit tests/compat chapters; lit=$$?; \
	wait $$mypy; mypy=$$?; echo '== mypy'; cat build/mypy.log; \
	[ $$lit$$mypy = 00 ] || { echo; echo "FAILED: lit (exit status $$lit) or mypy ($$mypy), beside each other"; exit 1; }
	@echo '== pytest'; $(PY) -m pytest $(PARALLEL) $(ARGS)

test-all: override ARGS := -m '' $(ARGS)
test-all: override LIT_ARGS := -Dall $(LIT_ARGS)
test-all: test  ## test, with all that is exhaustive: every table entry, mutant and schedule (nightly)

test-upstream:  ## test with LLVM's own MLIR bindings, in .venv-upstream: lit and pytest
	@NVDSL_MLIR=mlir $(MAKE) --no-print-directory VENV=.venv-upstream EXTRAS=test,upstream lit pytest

lint: $(setup)  ## ruff and mypy
	$(call step,ruff,$(PY) -m ruff check --output-format=concise .)
	$(call step,mypy,$(PY) -m mypy)

lit: $(setup)  ## the lit tests: tests/lit, and the RUN lines of chapters and tests/compat
	$(call step,lit,$(LIT) -v $(LIT_ARGS) tests/lit tests/compat chapters)

pytest: $(setup)  ## all of pytest that needs no GPU
	@$(PY) -m pytest $(PARALLEL) $(ARGS)

unit: $(setup)  ## tests/unit only
	@$(PY) -m pytest tests/unit $(ARGS)

PAGES := build/interactive
pages: $(setup)  ## build/interactive: the pages with a slider of chapters 4, 5 and 6, and the swizzle explorer
	@mkdir -p $(PAGES)
	@$(PY) -m nvdsl run --picture $(PAGES)/ch4_slots.html chapters/ch4_multistage_gemm.py --M 128 --N 128 --K 640
	@$(PY) -m nvdsl run --delivery random --seed 2 --picture $(PAGES)/ch5_slots.html \
	    chapters/ch5_warp_specialized_gemm.py --M 128 --N 256 --K 640
	@$(PY) -m nvdsl run --delivery random --seed 2 --picture $(PAGES)/ch6_slots.html \
	    chapters/ch6_tma_store_gemm.py --M 128 --N 256 --K 256
	@$(PY) -m nvdsl draw swizzle --shape 16x64 --out $(PAGES)/swizzle.html
	@ls $(PAGES)/*.html

gpu-test: $(setup)  ## tests/gpu, GPU_JOBS at a time; fails where there is no Hopper GPU
	@$(PY) -c 'import sys; from nvdsl.testing import missing_hopper; sys.exit(missing_hopper())'
	@if $(PY) -c 'import xdist' 2>/dev/null; then jobs='-n $(GPU_JOBS)'; else jobs=; fi; \
	$(PY) -m pytest tests/gpu -m 'not alone' $$jobs $(ARGS); together=$$?; \
	$(PY) -m pytest tests/gpu -m alone $(ARGS); alone=$$?; \
	for code in $$together $$alone; do [ $$code = 0 ] || [ $$code = 5 ] || exit $$code; done  # 5: ARGS chose none

stress: $(setup)  ## 10,000 calls of the simulator over 8 threads, and 100 forks meanwhile (some minutes)
	@$(PY) -m tests.sim.threads 10000 100

sanitize: $(setup)  ## the chapters under compute-sanitizer, where there is one and a Hopper GPU
	@$(PY) tests/gpu/sanitize.py $(ARGS)

bench: $(setup)  ## every benchmarks/bench_*.py, one after the other
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(PY) $$file || exit 1; done

mutants: $(setup)  ## judge every mutant of every correct kernel, and write docs/mutations.md (kept verdicts: minutes)
	@$(PY) -m tests.sim.mutants --write

hunt: $(setup)  ## COUNT random correct kernels of SEED, and mutants that nobody reports (build/hunt.md)
	@$(PY) -m tests.hunt --seed $(SEED) --count $(COUNT)

# -W: a warning fails; -n: so does a reference to nothing; -E: read everything again, for docstrings may have changed.
docs: $(docs-setup)  ## the site, in build/docs/html; a broken link or reference into the project fails (half a minute)
	@mkdir -p build/docs
	@$(MAKE) --no-print-directory pages PAGES=build/docs/extra/interactive >build/docs/pages.log 2>&1 \
	    || { cat build/docs/pages.log; exit 1; }
	$(call step,sphinx,$(PY) -m sphinx -b html -W --keep-going -n -E -q docs build/docs/html)
	@echo 'build/docs/html/index.html'

docs-links: $(docs-setup)  ## whether the links of the site to other sites work (needs a network)
	$(call step,linkcheck,$(PY) -m sphinx -b linkcheck -E -q docs build/docs/links)

wheel: $(setup)  ## dist/nvdsl-*.whl
	@$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist . && ls dist/nvdsl-*.whl

resolve: wheel  ## that pip finds a wheel of all that nvdsl needs for ARCH, for each Python (downloads none)
	@for version in 3.11 3.12 3.13 3.14; do echo "== Python $$version, $(ARCH)"; \
	$(PY) -m pip install --quiet --dry-run --ignore-installed --target build/resolve --only-binary=:all: \
	    --python-version $$version $(foreach tag,2_28 2_27 2_24 2_17,--platform manylinux_$(tag)_$(ARCH)) \
	    --platform manylinux2014_$(ARCH) dist/nvdsl-*.whl || exit 1; done

clean:  ## remove what tests and builds wrote
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find nvdsl chapters tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

distclean: clean  ## clean, and the virtual environment too
	rm -rf $(VENV) .venv-upstream

# Runs again when pyproject.toml is newer. A .venv whose Python has gone (an upgraded system) is made anew. Python
# compiles what is imported when it is imported, and most of what is installed never is: so pip compiles nothing.
$(VENV)/.installed: pyproject.toml
	@python='$(PYTHON)'; \
	suits() { "$$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; }; \
	for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	    if [ -z "$$python" ] && suits $$name; then python=$$name; fi; \
	done; \
	if [ -z "$$python" ] || ! suits "$$python"; then \
	    echo "nvdsl needs Python 3.11 to 3.14. $${python:-python3} is not. Name one: make PYTHON=/path/to/python3.12 ..."; \
	    exit 1; \
	fi; \
	if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
	    echo "$$python can't make virtual environments. On Debian or Ubuntu: apt install python3-venv"; \
	    echo "(or name another Python: make PYTHON=/path/to/python3.12 ...)"; \
	    exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$("$$python" --version): some 260 MB to download, about a minute ..."; \
	"$(VENV)/bin/python" -c pass 2>/dev/null || "$$python" -m venv --clear "$(VENV)" || exit 1; \
	"$(VENV)/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile -e '.[$(EXTRAS)]' || { \
	    echo "Setting up $(VENV) failed: see pip's message above."; exit 1; }
	@touch "$@"

$(VENV)/.installed-docs: $(VENV)/.installed
	@"$(VENV)/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[docs]' || { \
	    echo "Setting up the tools of the site failed: see pip's message above."; exit 1; }
	@touch "$@"
