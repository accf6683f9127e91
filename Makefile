# `make demo` and `make test` work on a clean machine with Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test smoke lint setup clean

demo: setup
	$(BIN)/ftw demo

test: setup
	$(BIN)/python -m pytest

# A real model: SmolLM2-135M from a package of 93 MB, some minutes, 4 GB of memory.
smoke: setup
	$(BIN)/python -m pytest -m slow tests/slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/zizmor --offline --quiet .github

setup: $(VENV)/.installed

# The stamp is written last, so a setup that was cut off starts again.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; try make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info
