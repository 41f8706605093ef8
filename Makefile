# `make demo` and `make test` need nothing but GNU make and some Python >= 3.12 on the machine.

VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed-tests
INSTALLED_DOCS := $(VENV)/.installed-docs
INSTALLED_BENCH := $(VENV)/.installed-bench

# Two workers is what a small machine carries; WORKERS=0 runs the tests in one process.
WORKERS ?= 2
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

.PHONY: help demo smoke test test-slow processors lint types format bench peers corpus real_size startup many growth hierarchies necks vanishing calibration model_calibration agreement hard discrete quiet papers eprv3 gallery identity executors jax update faults docs api dist wheel-test clean

help:
	@echo "make demo         how many clusters do the 82 galaxies form? (a few minutes)"
	@echo "make test         lint, types, unit tests, doctests, demo and notebooks at tiny settings"
	@echo "make test-slow    the tests that take long, in themselves or to compile"
	@echo "make processors   the tests with the last bits of other processors, and with other seeds (hours)"
	@echo "make lint types   ruff; mypy"
	@echo "make format       let ruff rewrite the formatting"
	@echo "make bench        cost and error of log Z: the README's table, then beside its peers"
	@echo "make peers        the latter alone, which installs the peers"
	@echo "make corpus       over a hundred models of many kinds: right log Z, or a refusal by name? (hours)"
	@echo "make real_size    thirty models of 50 to 4000 values, beside nutpie (hours)"
	@echo "make startup      from a cold process to the first log Z, beside nutpie's first draws"
	@echo "make many         1000 posteriors at once: speed, cost over gradients, error; beside BlackJAX"
	@echo "make growth       gradients and seconds as dimensions grow"
	@echo "make hierarchies  V, lost mass and gradients of maps, with one number changed at a time"
	@echo "make necks        maps of hierarchies where a scale goes to zero, against exact values"
	@echo "make vanishing    log Z where any of three scales may be zero, beside a Kalman filter"
	@echo "make calibration  does the reported error cover the truth?"
	@echo "make model_calibration  are posterior model probabilities calibrated? 500 simulated data sets"
	@echo "make agreement    do the five methods agree?"
	@echo "make hard         wrong runs on targets chosen to hurt, and how many say nothing"
	@echo "make update       ten updates with more data, beside one run on all of them"
	@echo "make discrete     models with discrete variables: exact answers, speed, PyMC alone"
	@echo "make quiet        warnings of runs on easy cases, which should have none"
	@echo "make identity     what it takes to know that a model is the same, by its size"
	@echo "make executors    CPU seconds of chains on processes, dask and MPI, over those without"
	@echo "make jax          where JAX pays for annealed particles, as a picture"
	@echo "make papers       published figures, computed again"
	@echo "make eprv3        evidence for planets, beside what ten teams submitted (hours)"
	@echo "make faults       kill runs at random moments, and compare what continues with what was not killed"
	@echo "make gallery      every picture on short runs, in build/gallery"
	@echo "make docs         the documentation, in docs/_build/html"
	@echo "make api          write docs/reference/names.md and the picture of the folders"
	@echo "make dist         source archive and wheel, in dist/"
	@echo "make wheel-test   the README's example from the built wheel, in an empty environment"
	@echo "make clean        remove .venv, caches and everything built"

# --- set-up -------------------------------------------------------------------------------------

# A pyenv shim for an inactive version exists but fails when run, so every candidate is tried.
$(PYTHON):
	@set -eu; found=; \
	for candidate in python3.14 python3.13 python3.12 python3 python \
	    $$(ls -d "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/*/bin/python 2>/dev/null | sort -rV); do \
	  if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 12))' \
	      >/dev/null 2>&1; then found="$$candidate"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "No Python >= 3.12 with the venv module was found, neither on PATH nor in pyenv." >&2; \
	  echo "Install one (pyenv install 3.12; on Debian and Ubuntu: python3.12 and" >&2; \
	  echo "python3.12-venv), then run make again." >&2; \
	  exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$found --version) ($$found)"; \
	"$$found" -m venv $(VENV)

define check_python
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || { \
	  echo "$(VENV) does not hold a working Python >= 3.12: make clean, then run make again." >&2; \
	  exit 1; }
	@$(PYTHON) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m ensurepip >/dev/null
endef

# Modules are compiled when they are first imported, and most of what is installed never is.
$(INSTALLED): pyproject.toml | $(PYTHON)
	$(check_python)
	@echo "Installing the package and its test tools into $(VENV) (once; a few minutes)"
	@$(PYTHON) -m pip install -qq --disable-pip-version-check --no-compile --editable ".[tests]"
	@touch $@

$(INSTALLED_DOCS): pyproject.toml $(INSTALLED)
	@echo "Installing the documentation tools into $(VENV) (once)"
	@$(PYTHON) -m pip install -qq --disable-pip-version-check --editable ".[docs]"
	@touch $@

$(INSTALLED_BENCH): pyproject.toml $(INSTALLED)
	@echo "Installing what the package is compared with into $(VENV) (once)"
	@$(PYTHON) -m pip install -qq --disable-pip-version-check --editable ".[bench]"
	@touch $@

# --- the two commands ---------------------------------------------------------------------------

demo: $(INSTALLED)
	@$(PYTHON) notebooks/galaxies.py

# Tests start processes that all import PyMC, of which most of the time would be that of Python's
# compiler where no bytecode is kept.
test: export PYTHONDONTWRITEBYTECODE =

# pytest comes last, so that its closing line is the last line.
test: lint types
	@$(PYTHON) -m pytest --quiet --doctest-modules -m "not slow" \
	  --numprocesses $(WORKERS) --dist worksteal $(PYTEST_ARGS) tests pymc_tempering

# --- parts of `make test`, and of what its tests do ---------------------------------------------

lint: $(INSTALLED)
	@$(PYTHON) -m ruff check --quiet .
	@$(PYTHON) -m ruff format --quiet --check .

types: $(INSTALLED)
	@$(PYTHON) -m mypy --no-error-summary

smoke: $(INSTALLED)
	@$(PYTHON) notebooks/galaxies.py --components 2 --draws 50 --chains 2 --seed 1 --output build/smoke

# --- the rest -----------------------------------------------------------------------------------

test-slow: $(INSTALLED)
	@$(PYTHON) -m pytest -m slow $(PYTEST_ARGS) tests

processors: $(INSTALLED)
	@$(PYTHON) .ci/processors.py $(ARGS)

format: $(INSTALLED)
	@$(PYTHON) -m ruff check --quiet --fix .
	@$(PYTHON) -m ruff format --quiet .

growth hierarchies necks vanishing calibration model_calibration agreement hard discrete quiet gallery identity executors update eprv3: $(INSTALLED)
	@$(PYTHON) benchmarks/$@.py $(ARGS)

bench: $(INSTALLED)
	@$(PYTHON) benchmarks/bench.py $(ARGS)
	@$(MAKE) peers ARGS="$(PEERS_ARGS)"

peers corpus real_size startup many papers: $(INSTALLED_BENCH)
	@$(PYTHON) benchmarks/$@.py $(ARGS)

jax: $(INSTALLED_BENCH)
	@$(PYTHON) benchmarks/jax_backend.py $(ARGS)

faults: $(INSTALLED)
	@$(PYTHON) -m tests.checkpoint.killed $(ARGS)

docs: $(INSTALLED_DOCS)
	@$(PYTHON) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "The documentation is docs/_build/html/index.html"

api: $(INSTALLED)
	@$(PYTHON) docs/_ext/api_page.py
	@$(PYTHON) docs/_ext/import_order.py

dist: $(INSTALLED)
	@$(PYTHON) -m pip install -qq --disable-pip-version-check build
	@$(PYTHON) -m build

# What the wheel job of continuous integration runs; needs no environment but the interpreter.
wheel-test: | $(PYTHON)
	$(check_python)
	@$(PYTHON) .ci/wheel.py

clean:
	@rm -rf $(VENV) build dist out docs/_build .pytest_cache .mypy_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
