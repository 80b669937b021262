PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# What Python compiled is kept, which each process would do again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: report test test-fast environment javascript lint yaml lock \
	lint-types lint-workflow lint-page lint-style

report: environment  ## the default experiment, to results/report.html
	$(BIN)/profkit run

PYTEST := PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder

# The linters beside the tests, which wait for one another at times; what they say comes last.
test: environment javascript  ## everything that can be checked on this machine
	said=$$(mktemp); nice $(MAKE) --no-print-directory lint >$$said 2>&1 & linters=$$!; \
	$(PYTEST) --numprocesses 4; tests=$$?; \
	wait $$linters; linted=$$?; cat $$said; rm $$said; exit $$((tests || linted))

# Without what makes a capture, runs the pipeline, opens a browser or reads real captures: tests
# that are marked `slow`, most of them by NEEDS of tests/conftest.py, which says why.
test-fast: environment  ## what takes a minute
	$(PYTEST) --numprocesses 2 -m "not slow"

# The linters side by side; the types take the longest.
LINTERS := lint-types lint-workflow lint-page lint-style
lint: environment javascript
	$(MAKE) --no-print-directory --jobs 2 --output-sync --keep-going $(LINTERS)

lint-types:
	$(BIN)/mypy

lint-workflow:
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

lint-page:
	PATH="$(abspath $(BIN)):$$PATH" $(JAVASCRIPT)/.bin/tsc --project envs/javascript
	PATH="$(abspath $(BIN)):$$PATH" $(JAVASCRIPT)/.bin/eslint --config envs/javascript/eslint.config.js profkit/report/assets

lint-style:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

yaml: environment  ## comments in conf/ from the docstrings of settings
	$(BIN)/python -m profkit.planning.yaml_comments

environment: $(VENV)/.ready

# What checks the scripts of the report; Node itself is a Python package of the lock.
JAVASCRIPT := envs/javascript/node_modules
javascript: $(JAVASCRIPT)/.ready

$(JAVASCRIPT)/.ready: envs/javascript/package-lock.json $(VENV)/.ready
	PATH="$(abspath $(BIN)):$$PATH" npm ci --prefix envs/javascript --ignore-scripts --no-audit --no-fund --loglevel error
	touch $@

# The lock pins every package; the build tools are among them, so nothing else is fetched.
$(VENV)/.ready: envs/requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r envs/requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

lock:  ## pin what is installed now
	$(BIN)/python -m pip freeze --exclude-editable --exclude pip | sed 's/+cpu$$//' > envs/.frozen
	(sed -n '/^#/p' envs/requirements.lock; cat envs/.frozen) > envs/.lock
	mv envs/.lock envs/requirements.lock; rm envs/.frozen
