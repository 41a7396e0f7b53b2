# Everything runs in environments made here; a machine needs Python >= 3.11 with pip, and make.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
ENGINES := .venv-engines
WITNESSES := .venv-witnesses
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# without compiled files each worker of pytest rewrites the assertions of all tests at each run
unexport PYTHONDONTWRITEBYTECODE
# workers share the processors, and on small data several threads of one wait for each other
test test-kernel test-random test-slow test-oldest test-engines golden pages wheel: export OMP_NUM_THREADS := 1
test test-kernel test-random test-slow test-oldest test-engines golden pages wheel: export OPENBLAS_NUM_THREADS := 1

.PHONY: demo test test-kernel test-random golden pages test-slow test-oldest test-engines lint types docs docs-test wheel sbom bench bench-scale bench-spark head-to-head ablate audit mutants witnesses clean

$(VENV)/.ready: pyproject.toml
	@echo "Making the environment $(VENV) ..."
	$(PYTHON) -m venv $(VENV)
	@echo "Installing the package and its development tools into $(VENV), which takes a minute or two ..."
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/.ready  ## the main job on real data: table, rule, receipt and picture
	cd examples && ../$(BIN)/python quickstart.py

PYTEST_ALL := $(BIN)/python -m pytest -n auto --dist worksteal

test: lint types $(VENV)/.ready  ## lint, types, tests, and the examples of docstrings and of the first two pages
	$(PYTEST_ALL) --durations=40

# KERNEL: the processor that OpenBLAS computes for, since others add up in another order
KERNEL := Haswell
NUMERICAL := accounting boosting conformal guarantees hypotheses label_boost label_privacy linear mechanisms metrics query_release rules sanitizers test_golden.py

test-kernel: $(VENV)/.ready  ## what computes, with the kernels of another processor
	OPENBLAS_CORETYPE=$(KERNEL) $(PYTEST_ALL) $(addprefix tests/,$(NUMERICAL))

# SEED: of the order, which pytest prints at its start
test-random: $(VENV)/.ready  ## the tests in another order
	$(PYTEST_ALL) -p randomly $(if $(SEED),--randomly-seed=$(SEED))

golden: $(VENV)/.ready  ## all golden numbers, of which `make test` has a few
	$(PYTEST_ALL) -m 'golden or not golden' tests/test_golden.py

pages: $(VENV)/.ready  ## the examples of all pages of the documentation, and those of the gallery
	$(PYTEST_ALL) --durations=10 -m 'not slow and not golden' docs tests/project/test_examples.py

test-slow: $(VENV)/.ready  ## minutes of evidence: accuracy on real data
	HYPOTHESIS_PROFILE=thorough $(PYTEST_ALL) -m 'slow and not golden'

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy

# the oldest supported dependencies, as pyproject.toml names them
$(OLDEST)/.ready: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --editable . \
		'scikit-learn==1.7.0' 'numpy==2.0.0' 'scipy==1.13.0' 'joblib==1.3.0' \
		'narwhals==2.20.0' 'pyarrow==17.0.0' \
		'duckdb==2.0.0' 'dask[dataframe,distributed]==2025.1.0' 'polars==1.34.0' \
		'pandas==2.2.2' 'matplotlib==3.9.0' 'pyparsing<3.2' 'pytest>=8' 'pytest-xdist>=3.6' 'hypothesis>=6.100'
	touch $@

test-oldest: $(OLDEST)/.ready  ## the estimator checks and the library's tests on them
	$(OLDEST)/bin/python -m pytest -n auto --dist worksteal --durations=40 -m 'not slow and not golden and not once' tests skpublicdp

# engines whose packages are not in [dev]: ibis 12 reads no DuckDB 2, and sqlglot 28 writes SQL that SQLite refuses;
# Spark needs Java, which is Debian's unless there is one
$(ENGINES)/.ready: pyproject.toml
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/python -m pip install --quiet --editable '.[dev,ibis,spark]'
	$(ENGINES)/bin/python -m pip install --quiet 'ibis-framework[polars,sqlite,duckdb]' 'pyspark[connect]' 'sqlglot<28' 'duckdb<2'
	command -v java || { apt-get update -qq && \
		apt-get install --yes -qq --no-install-recommends default-jre-headless; }
	touch $@

test-engines: $(ENGINES)/.ready  ## the contract suites of rows on ibis, Spark and Spark Connect, a quarter of an hour
	$(ENGINES)/bin/python -m pytest -W ignore::FutureWarning tests/data -k 'ibis or spark'
	SPARK_API_MODE=connect $(ENGINES)/bin/python -m pytest -W ignore::FutureWarning tests/data -k spark

bench-spark: $(ENGINES)/.ready  ## Spark beside Dask on two cores: 10^7 rows, minutes
	$(ENGINES)/bin/python benchmarks/bench_spark.py

docs/.ready: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

docs: docs/.ready  ## the site, warnings as errors, into docs/_build/html
	rm -rf docs/api/generated docs/_build/html  # what is gone; the gallery keeps what has not changed
	$(BIN)/python -m sphinx -W --keep-going -q -j auto -b html docs docs/_build/html

docs-test: docs  ## the site in a real browser, which is Debian's Chromium unless there is one
	command -v chromium || { apt-get update -qq && \
		apt-get install --yes -qq --no-install-recommends chromium; }
	$(BIN)/python -m pytest -q -n auto tests/site

DOCTEST := -m doctest -o NORMALIZE_WHITESPACE -o ELLIPSIS

wheel: $(VENV)/.ready  ## sdist and wheel into dist/, tried where nothing else is installed, then the first pages
	rm -rf dist .venv-wheel
	$(BIN)/python -m pip install --quiet 'build>=1.2'
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist/again .  # equal sources give equal bytes
	for file in dist/*.whl dist/*.tar.gz; do cmp "$$file" "dist/again/$$(basename "$$file")" || exit 1; done
	rm -r dist/again
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet dist/*.whl
	cp benchmarks/installed.py dist/ && cd dist && ../.venv-wheel/bin/python installed.py
	cd dist && ../.venv-wheel/bin/python $(DOCTEST) ../docs/user_guide/getting_started.md
	.venv-wheel/bin/python -m pip install --quiet "$$(echo dist/*.whl)[data,plot]"
	cd dist && ../.venv-wheel/bin/python $(DOCTEST) ../README.md ../docs/index.md ../docs/user_guide/tutorial.md

sbom: $(VENV)/.ready  ## software bill of materials of the environment into dist/sbom.json, offline; EXTRAS="data plot"
	mkdir -p dist
	$(BIN)/python .ci/sbom.py $(EXTRAS) > dist/sbom.json

bench: $(VENV)/.ready  ## speed ratios and accuracy tables into benchmarks/results
	$(BIN)/python benchmarks/bench_core.py
	$(BIN)/python benchmarks/bench_hypotheses.py
	$(BIN)/python benchmarks/bench_ppm.py
	$(BIN)/python benchmarks/bench_accuracy.py
	$(BIN)/python benchmarks/bench_labels.py
	$(BIN)/python benchmarks/bench_search.py
	$(BIN)/python benchmarks/bench_boosting.py
	$(BIN)/python benchmarks/bench_regression.py

bench-scale: $(VENV)/.ready  ## tables larger than memory: 10^6 to 10^8 rows from Parquet, minutes and 2 GB of disk
	$(BIN)/python benchmarks/bench_scale.py

# DATA: the folder of the census tables; MBI: a clone of ryan112358/mbi, for MST and AIM
head-to-head: $(VENV)/.ready  ## beside other packages, in environments of their own: more than an hour
	$(BIN)/python benchmarks/head_to_head.py $(if $(DATA),--data-dir $(DATA)) $(if $(MBI),--mbi $(MBI)) $(ARGS)

ablate: $(VENV)/.ready  ## what each tuned number buys, as ratios of errors
	$(BIN)/python benchmarks/ablate.py

audit: $(VENV)/.ready  ## verifies every estimator: claimed and attained privacy, two minutes and more
	$(BIN)/python -m tests.audit

mutants: $(VENV)/.ready  ## seeds defects in copies of the package, each of which the audit must find
	$(BIN)/python -m tests.mutants

# torch, which sacroml needs, brings some 5 GB
$(WITNESSES)/.ready: pyproject.toml
	$(PYTHON) -m venv $(WITNESSES)
	$(WITNESSES)/bin/python -m pip install --quiet --editable '.[data]' 'polars>=1.34' \
		'dp-accounting==0.6.0' 'opendp==0.16.0' 'jax-privacy==2.0.0' 'sacroml==2.0.1' 'sdmetrics==0.32.0' \
		'seaborn' 'graphviz'  # of dp-recorder
	touch $@

# RECORDER: a clone of ObliviousAI/dp-recorder, which is on no package index; DATA: the census tables
witnesses: $(WITNESSES)/.ready  ## tools of others judge the package, in an environment of their own
	DATA=$(DATA) $(WITNESSES)/bin/python benchmarks/witnesses.py $(if $(RECORDER),--recorder $(RECORDER)) $(ARGS)

clean:
	rm -rf $(VENV) $(OLDEST) $(ENGINES) .venv-wheel dist .venv-peers .venv-opendp .venv-tabpe .venv-diffprivlib $(WITNESSES) docs/.ready docs/_build docs/api/generated docs/auto_examples benchmarks/results examples/results
