# `make demo` shows what it does, `make test` proves it. Both need Python 3.11 and cargo 1.85 or
# newer; the tests also want a JDK 17 or newer and Chromium. All but Python is installed where apt
# can.

BIN = .venv/bin
PYTEST = $(BIN)/python -m pytest
TREES = formats je_tools commands tests fixtures bench docs

.PHONY: demo test test-all fuzz aarch64 lint format dist bundle man site bench bench-records bench-streams bench-erasures bench-ignites installed venv
.PHONY: dev clean

demo: venv
	@scripts/demo.sh

# Tests fail without a JDK or Chromium, each naming it; the others still tell what they can.
test: lint
	@scripts/jdk.sh || true
	@scripts/chromium.sh || true
	@scripts/jars.sh || true
	scripts/rust-test.sh
	PYTEST_DEBUG_TEMPROOT=$$(scripts/memory.sh) $(PYTEST) -n auto --budget -m "not exhaustive" \
	-o tmp_path_retention_policy=failed

# `make test-all SHARD=1/8` runs an eighth of the cases of each test; see tests/shards.py.
test-all: lint
	@scripts/jdk.sh || true
	@scripts/chromium.sh || true
	@scripts/jars.sh || true
	@scripts/venv.sh site
	@scripts/connect.sh
	scripts/rust-test.sh
	scripts/rust-oldest.sh
	$(PYTEST) -n auto --timeout 3600 --hypothesis-profile search $(if $(SHARD),--shard $(SHARD))

# With overflow checks and debug assertions in the extension, which is built anew afterwards.
fuzz: dev
	PROPTEST_CASES=20000 scripts/rust-test.sh --profile checked
	@trap scripts/native.sh EXIT && scripts/native.sh checked && \
	$(BIN)/python -m tests.damage.fuzz $(FUZZ)

# Tests of the extension on other processors, in an emulator, on an x86-64 Debian.
aarch64: dev
	scripts/aarch64.sh

lint: dev
	$(BIN)/ruff check $(TREES)
	$(BIN)/ruff format --check $(TREES)
	scripts/types.sh
	scripts/rust-lint.sh

format: dev
	$(BIN)/ruff check --fix $(TREES)
	$(BIN)/ruff format $(TREES)
	cargo fmt --manifest-path formats/native/Cargo.toml --all

# setuptools would put files that are gone from the tree into the wheel out of build/lib. The tag
# names the oldest glibc that has every symbol the extension is linked to; auditwheel refuses to
# give one where a library would have to be bundled.
dist: venv man
	rm -rf build/lib* build/bdist.* build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps \
	--wheel-dir build/wheel .
	$(BIN)/python -m auditwheel repair --patcher none --wheel-dir dist build/wheel/*.whl
	@ls -l dist/*.whl

# One file that runs with nothing but a Python, for hosts without network: scripts/bundle.sh says how.
bundle: dist
	scripts/bundle.sh $(PYTHONS)

# From the help texts; the wheel installs them under share/man/man1.
man: venv
	$(BIN)/python docs/man.py build/man

# The pages as a site in build/site, which can be opened from disk.
site:
	@scripts/venv.sh site
	scripts/site.sh

# What is measured is what users have: an editable install looks for its source tree at each start.
bench: installed
	$(BIN)/python -m bench.run --je-tools build/installed/bin/je-tools $(BENCH)

bench-records: installed
	$(BIN)/python -m bench.records --je-tools build/installed/bin/je-tools $(BENCH)

bench-erasures: installed
	$(BIN)/python -m bench.erasures --je-tools build/installed/bin/je-tools $(BENCH)

bench-streams: installed
	$(BIN)/python -m bench.streams --je-tools build/installed/bin/je-tools $(BENCH)

bench-ignites: installed
	$(BIN)/python -m bench.ignites --je-tools build/installed/bin/je-tools $(BENCH)

installed: dev
	@scripts/jdk.sh
	scripts/installed.sh

venv:
	@scripts/venv.sh base

dev:
	@scripts/venv.sh dev

clean:
	rm -rf .venv build dist *.egg-info formats/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
