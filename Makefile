# Everything sets itself up: `make demo` and `make test` need Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install demo studio test lint screenshots clean
.DEFAULT_GOAL := help

help:
	@echo "make demo         set up, train English-French on the embedded phrasebook, translate, look inside"
	@echo "make studio       set up, open a page that looks through the demo's model (trained on first use)"
	@echo "make install      set up, to use the command glassformer: source .venv/bin/activate"
	@echo "make test         set up, check style and types, run all tests"
	@echo "make lint         set up, check style and types"
	@echo "make screenshots  set up, make the guide's pictures of the studio"
	@echo "make clean        remove the virtual environment"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Glassformer needs Python 3.11 or newer; say: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(VENV)/.installed-studio: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[studio]'
	@touch $@

install: $(VENV)/.installed

demo: install
	$(BIN)/glassformer demo

studio: $(VENV)/.installed-studio
	$(BIN)/glassformer studio

screenshots: $(VENV)/.installed-test
	$(BIN)/python bench/screenshots.py

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(VENV)/.installed-test lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

clean:
	rm -rf $(VENV)
