# make demo      optimize a bundled kernel on this machine
# make test      run all tests; of cases that one guard answers, one of each kind
# make test-all  run those cases, too: before a release
# make check     run tests without timing and long loops of compilers
# make lint      format, style, types, layers
# make house     size and shape of the package, beside its budgets
# make agents    install coding agents, for the tests that ask real ones
# make docs      write the generated pages again
# make clean     remove what these made
#
# All of it lives in .venv; `make PYTHON=python3.12 ...` chooses the interpreter it is made with.

PYTHON ?= python3
CC_ANY := $(shell command -v gcc 2>/dev/null || command -v clang 2>/dev/null)
GIT := $(shell command -v git 2>/dev/null)

BIN := .venv/bin
MADE := .venv/.made
INSTALLED := .venv/.installed
FOR_WORK := .venv/.installed-dev
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DELETE_ON_ERROR:
.PHONY: demo test test-all check lint house agents docs clean tools same-python

# Arguments for the program itself: make demo ARGS=--json, make test ARGS='-k ledger'.
ARGS ?=

demo: $(INSTALLED) | tools same-python
	@$(BIN)/roofsmith demo $(ARGS)

# Two processes, a file in one of them: what its tests share is made once. What measures kernels
# waits until it is alone, and comes first (tests/conftest.py). Tests start hundreds of processes of
# ours: they find modules compiled, whatever containers like to set.
TESTS := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 2 --dist loadfile \
  --no-loadscope-reorder

test: $(FOR_WORK) | tools same-python
	@$(TESTS) -m 'not whole' --junit-xml=.venv/suite.xml $(ARGS)

test-all: $(FOR_WORK) | tools same-python
	@$(TESTS) $(ARGS)

check: $(FOR_WORK) | tools same-python
	@$(TESTS) -m 'not timing and not slow and not whole' $(ARGS)

lint: $(FOR_WORK) | same-python
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --num-workers 2
	@$(BIN)/lint-imports

house: $(FOR_WORK) | same-python
	@$(BIN)/python benchmarks/house.py $(ARGS)

# Claude Code as a package of Node's, mini-swe-agent in an environment of its own: it brings along
# 700 MB that nothing else here needs.
agents: $(MADE) | same-python
	@npm install --silent --no-audit --no-fund --prefix .venv/agents @anthropic-ai/claude-code
	@'$(PYTHON)' -m venv .venv/agents/mini
	@.venv/agents/mini/bin/python -m pip install --quiet --disable-pip-version-check mini-swe-agent

docs: $(FOR_WORK) | same-python
	@$(BIN)/python docs/generate.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE): | tools
	@command -v '$(PYTHON)' >/dev/null || { \
	  echo "roofsmith needs Python 3.11 or newer, and there is no '$(PYTHON)' here"; \
	  echo "try: apt-get install python3 python3-venv, or make PYTHON=/path/to/python3.12 ..."; \
	  exit 2; } >&2
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "roofsmith needs Python 3.11 or newer; '$(PYTHON)' is $$('$(PYTHON)' -V 2>&1)"; \
	  echo "try: make PYTHON=python3.12 $(MAKECMDGOALS)"; \
	  exit 2; } >&2
	@echo 'making .venv with $(PYTHON)'
	@'$(PYTHON)' -m venv .venv || { \
	  echo "'$(PYTHON)' can't make a virtual environment"; \
	  echo "try: apt-get install python3-venv"; \
	  exit 2; } >&2
	@touch $@

$(INSTALLED): $(MADE) pyproject.toml
	@echo 'installing roofsmith into .venv (a minute the first time)'
	@$(PIP) install --quiet --editable .
	@touch $@

$(FOR_WORK): $(MADE) pyproject.toml
	@echo 'installing roofsmith and its development tools into .venv (a minute the first time)'
	@$(PIP) install --quiet --editable '.[dev]'
	@touch $@ $(INSTALLED)

tools:
ifeq ($(CC_ANY),)
	@echo "no C compiler: roofsmith builds kernels with gcc or clang" >&2
	@echo "try: apt-get install gcc" >&2
	@exit 2
endif
ifeq ($(GIT),)
	@echo "no git: roofsmith keeps accepted kernels as commits" >&2
	@echo "try: apt-get install git" >&2
	@exit 2
endif

# A .venv that another interpreter made is not silently taken for the one that was asked for.
same-python: $(MADE)
ifeq ($(origin PYTHON),command line)
	@asked="$$('$(PYTHON)' -V 2>&1)"; has="$$($(BIN)/python -V 2>&1)"; \
	[ "$$asked" = "$$has" ] || { \
	  echo "'$(PYTHON)' is $$asked, but .venv was made with $$has"; \
	  echo "try: make clean, then again"; \
	  exit 2; } >&2
endif
