# make demo and make test work on a bare machine with Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# one thread a test process: two that share cores wait for each other
TEST_ENV := OMP_NUM_THREADS=1

# what make results needs: neither torch nor a GPU
RESULTS_VENV := .venv-results
RESULTS_NEEDS := numpy scipy PyYAML pydantic rich pillow matplotlib jinja2

# what make docs needs: the extra docs alone, without the package and torch
DOCS_VENV := .venv-docs
EXTRA = $(PYTHON) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['$(1)'])"

# an environment of its own for the extras, since gradio wants an older Pillow than constraints.txt has
EXTRAS_VENV := .venv-extras
EXTRAS := attack,dev,notebooks,play,ray,transformers
EXTRAS_TESTS := tests/adapters tests/play tests/cli/test_play.py tests/audit/test_plain_model.py tests/workflows/test_ray.py tests/docs/test_pages.py tests/docs/test_site.py

.PHONY: demo results docs notebooks test test-all test-extras lint clean

demo: $(VENV)/.demo
	$(BIN)/ars demo
	$(BIN)/ars demo --train --out runs/demo-trained

# the tables, figures and page of results/, from its records alone; byte-equal tables on every machine
results: $(RESULTS_VENV)/.ready
	$(RESULTS_VENV)/bin/ars results

# the site in build/site; a link that leads nowhere is an error
docs: $(DOCS_VENV)/.ready
	$(DOCS_VENV)/bin/python docs/gather.py
	$(DOCS_VENV)/bin/zensical build --strict

# run the notebooks again and keep their output
notebooks: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet -c constraints.txt $$($(call EXTRA,notebooks))
	$(BIN)/jupyter nbconvert --to notebook --execute --inplace --ExecutePreprocessor.record_timing=False notebooks/*.ipynb

test: lint
	$(TEST_ENV) $(BIN)/python -m pytest -n auto -m "not slow and not gpu"

# random tests draw from another seed in each run; pytest's header names it, and ARS_TEST_SEED=... repeats it
test-all: lint
	ARS_TEST_SEED=$${ARS_TEST_SEED:-$$(date +%s)} $(TEST_ENV) $(BIN)/python -m pytest -n auto

test-extras: docs $(EXTRAS_VENV)/.ready
	$(TEST_ENV) $(EXTRAS_VENV)/bin/python -m pytest -n auto -m "not gpu" $(EXTRAS_TESTS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(RESULTS_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(RESULTS_VENV)
	$(RESULTS_VENV)/bin/python -m pip install --quiet -c constraints.txt $(RESULTS_NEEDS)
	$(RESULTS_VENV)/bin/python -m pip install --quiet --no-deps -e .
	touch $@

$(DOCS_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet -c constraints.txt $$($(call EXTRA,docs))
	touch $@

$(EXTRAS_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(EXTRAS_VENV)
	$(EXTRAS_VENV)/bin/python -m pip install --quiet $$(grep '^torch=' constraints.txt)
	$(EXTRAS_VENV)/bin/python -m pip install --quiet -e '.[$(EXTRAS)]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) $(RESULTS_VENV) $(EXTRAS_VENV) $(DOCS_VENV) build .cache runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
