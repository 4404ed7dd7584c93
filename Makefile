# Everything sets itself up: `make demo` and `make test` need Python 3.11 or newer and nothing else. With Node 20 or
# newer, `make test` also checks the JavaScript.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := tensorboard,pictures,huggingface,argos,onnx,parquet,images,rouge,studio,serve

.PHONY: help install demo studio docs test test-lowest check lint check-web package test-wheel screenshots clean
.DEFAULT_GOAL := help

help:
	@echo "make demo         set up, train English-French on the embedded phrasebook, translate, look inside"
	@echo "make studio       set up, open a web page that shows the inside of the demo's model (trained on first use)"
	@echo "make docs         set up, build the documentation site in site/ (English and Korean, works offline)"
	@echo "make install      set up, to use the command glassformer: source .venv/bin/activate"
	@echo "make check        set up, check style and types, run the quick tests (2 minutes)"
	@echo "make test         set up, check style and types, run all tests"
	@echo "make test-lowest  set up in .venv-lowest, run the unit tests with the lowest supported versions (constraints-lowest.txt)"
	@echo "make lint         set up, check style and types"
	@echo "make check-web    check style and types of the JavaScript and run its unit tests (needs Node 20 or newer)"
	@echo "make package      set up, build the source distribution and the wheels in dist/, check their contents"
	@echo "make test-wheel   install the built wheel into an empty environment, run the demo and the unit tests"
	@echo "make screenshots  set up, make the guide's pictures of the studio"
	@echo "make clean        remove the virtual environment and node_modules"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Glassformer needs Python 3.11 or newer. Hint: make PYTHON=python3.11 demo")'
	$(PYTHON) -m venv $(VENV)

# README.md is a part of the metadata.
$(VENV)/.installed: pyproject.toml setup.py README.md constraints.txt | $(BIN)/python
	@echo "Installing PyTorch and the other dependencies into $(VENV). This takes a few minutes the first time."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(VENV)/.installed-studio: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[studio]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

$(VENV)/.installed-package: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[package]'
	@touch $@

install: $(VENV)/.installed
	@echo "Glassformer is installed. For the command glassformer in this shell: source $(BIN)/activate"

demo: $(VENV)/.installed
	$(BIN)/glassformer demo
	@echo "(for the command glassformer in this shell: source $(BIN)/activate)"

studio: $(VENV)/.installed-studio
	$(BIN)/glassformer studio

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

screenshots: $(VENV)/.installed-test
	$(BIN)/python bench/screenshots.py

# NODE_TOO_OLD is "yes" without Node, too.
NODE_TOO_OLD := $(shell node --eval 'process.exit(Number.parseInt(process.versions.node) < 20 ? 1 : 0)' 2> /dev/null || echo yes)

node_modules/.installed: package.json package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

ifeq ($(NODE_TOO_OLD),yes)
check-web:
	@echo "check-web is skipped: it needs Node 20 or newer, which is not installed."
else
check-web: node_modules/.installed
	npm run --silent check
endif

lint: $(VENV)/.installed-test check-web
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror glassformer/engine/csrc/*.[ch]

check: $(VENV)/.installed-test lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "not slow" --numprocesses auto --maxprocesses 4 --dist worksteal \
		tests/architecture tests/unit tests/compat

test: $(VENV)/.installed-test lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

# One wheel with the native engine, for this platform, and one without it, for every platform.
package: $(VENV)/.installed-package
	rm -rf build dist
	$(BIN)/python -m build
	rm -rf build
	GLASSFORMER_BUILD_ENGINE=0 $(BIN)/python -m build --wheel
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/repo-review .

test-wheel: package
	OMP_NUM_THREADS=1 $(BIN)/python .ci/test_wheel.py $$(ls dist/*.whl | grep -v none-any)

test-lowest: $(VENV)-lowest/.installed-test
	OMP_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal tests/unit

$(VENV)-lowest/.installed-test: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt \
		-e '.[$(EXTRAS)]' pytest pytest-xdist hypothesis httpx ziglang
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-lowest node_modules site build dist wheelhouse
