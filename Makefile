# The commands of this repository. CI runs the same targets; `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# How many pytest workers. The client tests mostly wait for sessions to expire: more than one per core is right.
WORKERS ?= 4
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
SOAK_ARGS ?=
INTERRUPTS_ARGS ?=
COLD_ARGS ?=
# Of a release: --target TRIPLE, --vendored, --once.
DIST_ARGS ?=
# Platforms that only the compilers look at: rustc, and zig for the C of some crates.
PLATFORMS ?= aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-apple-darwin x86_64-pc-windows-gnu
COMPARE_ARGS ?=
# Of the differential run; SEED is the fuzz run's, too.
STEPS ?= 1000000
SEED ?= 0
# Of the mutants of the core: of which files of rust/core/src; all without one.
FILES ?=
# Of the recordings; all without a name.
SYSTEMS ?=
# Of fuzzing two brokers in lockstep.
SECONDS_PLAYED ?= 600
# Of conform-fuzz: classic, or consumer with a policy of conversions.
PROTOCOL ?= classic
POLICY ?= bidirectional
# Of the long fuzz run.
FRAMES ?= 100000000
TARGET ?= requests
# Not ?=: the shell has a SECONDS of its own.
SECONDS := 60
WALKS ?= 300
# Of formulas and Rust beside each other.
INPUTS ?= 1000000
# Of the journals that bench-audit measures.
EVENTS ?= 1000000,10000000
# Of bench-growth, one run each.
MEMBERS ?= 1000 10000 100000 1000000 10000000
GROUP_MEMBERS ?= 2000 10000 100000
# Of bench-churn: members, how many change a second, seconds, rounds.
CHURN ?= 100000 100 20 3
# Of audit-worlds: about 1,270 events each.
WORLDS ?= 800
# Of the simulator: half of them with every kind of fault, half with some.
SEEDS ?= 10000
KIND ?= all

export VIRTUAL_ENV := $(abspath $(VENV))
# What maturin tells PyO3's build script. With it clippy shares build scripts and macros with `make develop`, whose build
# it would undo otherwise.
PYO3_CONFIG = $(firstword $(wildcard $(abspath $(or $(CARGO_TARGET_DIR),target))/maturin/pyo3-config-*.txt))
# Of `make check`: compare with where the branch left this commit.
CHECK_SINCE ?= main

.PHONY: check long histories bench-transactions interrupts cold-starts first-test conform conform-fuzz conformance conformance-check help venv develop lint lint-python lint-rust format test-rust kill faults page monitoring kafka-directory kafka-acls soak test-python profile-tests test wheel check-wheel release dist licences check-platforms wheel-figures container bench bench-audit audit-worlds audit-long bench-gate ratios bench-durable bench-cluster bench-space bench-availability chaos bench-assign bench-growth bench-churn bench-hostile bench-reads bench-nodes bench-observing compare-assignors demo docs drawings picture differential explore explore-engine explore-txn planted mutants simulate specs-inputs fuzz fuzz-target clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(BIN)/maturin ## create .venv with the tools that build a wheel

$(BIN)/maturin:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2' 'deflate>=0.9,<1' 'uv>=0.9,<1'

# uv installs the packages of the extras in a third of the processor time that pip takes. It does not know the settings of pip,
# such as an index: what it does not install, maturin asks pip for.
$(VENV)/.packages: pyproject.toml | venv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r pyproject.toml --extra demo --extra docs --extra test || \
		echo 'make: uv cannot install the packages, so pip does' >&2
	touch $@

develop: $(VENV)/.packages ## build the Rust module (debug) and install rota with its test and docs tools into .venv
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin develop --features tests --extras demo,docs,test --quiet >/dev/null

lint: lint-python lint-rust ## all linters and type checks

lint-python: develop ## ruff, mypy --strict, and the stub against the built module
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml rota._rota

lint-rust: ## rustfmt and clippy, warnings are errors
	cargo fmt --all --check
	PYO3_BUILD_EXTENSION_MODULE=1 $(PYO3_CONFIG:%=PYO3_CONFIG_FILE="%") \
		cargo clippy --quiet --workspace --all-targets $(CLIPPY_ARGS) -- -D warnings

format: develop ## let ruff and rustfmt rewrite what they can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cargo fmt --all

check: venv ## check what changed since main: linters, unit tests of changed crates, transcripts, model (CHECK_SINCE=main); 2 minutes
	VENV=$(VENV) $(PYTHON) scripts/check --since $(CHECK_SINCE)

test-rust: ## the Rust tests; there are none in documentation, and clippy builds the examples
	cargo test --quiet --workspace --tests

long: develop ## what `make test` samples, in full: planted bugs of specifications and engines, mutants, walks, tables (an hour or two)
	ROTA_WALKS=600 cargo test --quiet --release -p rota-core --test random_walk
	ROTA_DAMAGE=many ROTA_HISTORIES=2000 cargo test --quiet -p rota-core --test damaged_snapshots --test wheel
	ROTA_WALKS=1000 cargo test --quiet --profile long -p rota-sim --test consumers
	ROTA_SEEDS=500 cargo test --quiet -p rota-sim --test simulate
	PLANTED_ALL=1 MUTANTS_EVERY=1 DIFFERENTIAL_EXAMPLES=1600 DIFFERENTIAL_RUNS=4000 CONVERSION_RUNS=3600 \
		$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m '' tests/checks
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m long --ignore tests/checks --ignore tests/audit/test_lakes.py
	LAKES_ALL=1 $(BIN)/python -m pytest -m '' tests/audit/test_lakes.py

kill: develop ## kill -9 a server 500 times, and 500 times in transactions: what it acknowledged survives (ROTA_KILLS=..., ROTA_SEED=...)
	ROTA_KILLS=$${ROTA_KILLS:-500} $(BIN)/python -m pytest -m '' -s tests/log/test_kill.py tests/server/test_transactions.py \
		tests/server/test_cluster_transactional_clients.py

histories: develop ## kill a server 500 times under transactions with late duplicates: no anomaly in the histories (ROTA_HISTORY_KILLS=..., ROTA_SEED=...)
	ROTA_HISTORY_KILLS=$${ROTA_HISTORY_KILLS:-500} $(BIN)/python -m pytest -s tests/server/test_transaction_histories.py

faults: ## crash and fail the log on disk at every operation of a workload, a dozen ways each (minutes)
	ROTA_FAULT_SEEDS=12 cargo test --release -p rota-log --test faults -- --nocapture

interrupts: develop ## Ctrl-C on every long command, 100 times at random moments; a table of how each ended (hours; INTERRUPTS_ARGS='--times 5')
	$(BIN)/python -m tests.commands.interrupted $(INTERRUPTS_ARGS)

cold-starts: develop ## start kafka-python without cached bytecode, 100 times (COLD_ARGS='--times 10 --bootstrap HOST:PORT')
	$(BIN)/python -m tests.clients.cold_start $(COLD_ARGS)

page: develop ## open the page of --http in a headless Chromium, screenshots in build/page (downloads Chromium)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check playwright
	$(BIN)/python -m tests.http.browse build/page

monitoring: develop ## let Prometheus scrape the metrics, and run the alert rules and the dashboard's queries (apt-get install prometheus)
	$(BIN)/python -m tests.http.monitoring

soak: develop ## an hour of 50,000 members, TLS, everything on: nothing must grow (SOAK_ARGS='--members 5000 --engine etcd')
	$(BIN)/python -m tests.log.soak $(SOAK_ARGS)

kafka-directory: develop ## compare a new Kafka broker's groups with rota's reading of its directory (JDK, Maven)
	$(BIN)/python -m tests.log.record_kafka

kafka-acls: develop ## compare the authorizer's decisions with Kafka's StandardAuthorizer, 100,000 random cases (JDK, Maven)
	$(BIN)/python -m tests.acls.kafka

test-python: develop ## the Python tests: models, transcripts, real clients (PYTEST_ARGS='-k ...' narrows)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

profile-tests: develop ## run the Python tests, list those that take most processor time (PYTEST_ARGS='tests/audit' narrows)
	mkdir -p build
	$(BIN)/python -m pytest -p tests.processor_time --processor-time build/processor-times.tsv \
		-n $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

test: ## everything, in this order: build, linters, Rust tests, Python tests
	time $(MAKE) develop
	time $(MAKE) lint-python lint-rust
	time $(MAKE) test-rust
	time $(MAKE) test-python

differential: wheel ## core against model, 1,000,000 steps of each protocol with the release build (STEPS=..., SEED=...)
	$(PYTHON) -m venv build/differential
	build/differential/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	build/differential/bin/rota check differential --steps $(STEPS) --seed $(SEED) --jobs $(WORKERS)

planted: develop ## plant bugs in a copy of the core, run each engine on each, write docs/generated/planted*.md (an hour)
	$(BIN)/python -m tests.checks.planted --workers $(WORKERS)
	$(BIN)/python -m tests.checks.planted --protocol consumer --workers $(WORKERS)

mutants: develop ## make many small changes of the core; the checks must notice (FILES='consumer_*'; hours; cargo install cargo-mutants)
	$(BIN)/python -m tests.checks.run_core_mutants --workers $(WORKERS) $(foreach file,$(FILES),'$(file)')

wheel: venv ## sdist and wheel (release build) into dist/
	rm -rf dist
	$(BIN)/maturin sdist --out dist
	$(BIN)/maturin build --release --compression-level 1 --out dist
	$(BIN)/python scripts/release compress dist/*.whl

check-wheel: ## install dist/*.whl without a Rust toolchain, run its checks and the demo
	PYTHON=$(PYTHON) CHECKED_BY=$(CHECKED_BY) scripts/check-wheel dist

first-test: ## time the way from an empty environment to a first green test with dist/*.whl
	$(PYTHON) scripts/first-test dist

release: ## cut the changelog, check licences, build dist/ twice; nothing is published (VERSION=0.2.0; docs/releasing.md)
	@test -n "$(VERSION)" || { echo "make release: give the version: make release VERSION=0.2.0" >&2; exit 2; }
	$(PYTHON) scripts/release prepare $(VERSION)
	$(PYTHON) scripts/release licences
	$(MAKE) dist

dist: build/release/tools/done ## build sdist, wheels and SBOMs of a release twice, compare them (DIST_ARGS='--target T --vendored --once')
	build/release/tools/bin/python scripts/release build $(DIST_ARGS)

build/release/tools/done: packaging/release/requirements.txt
	$(PYTHON) -m venv build/release/tools
	build/release/tools/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

licences: ## write LICENSES.txt, and check the licences of all crates (cargo install --locked cargo-deny)
	$(PYTHON) scripts/release licences --write

check-platforms: build/release/tools/done ## compile for platforms that tests do not run on, without linking (PLATFORMS=...; rustup)
	rustup target add $(PLATFORMS)
	# No Python of these is at hand. Windows links with one, and only its name is needed to look.
	printf '%s\n' implementation=CPython version=3.11 shared=true target_abi=CPython-abi3-3.11 lib_name=python3 \
		>build/release/pyo3-windows.txt
	for platform in $(PLATFORMS); do \
		echo "$$platform"; \
		how="PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1"; \
		[[ $$platform != *windows* ]] || how="PYO3_CONFIG_FILE=$(abspath build/release/pyo3-windows.txt)"; \
		PATH="$(abspath build/release/tools/bin):$$PATH" env $$how \
			cargo-zigbuild check --quiet --locked -p rota-python --target $$platform || exit 1; \
	done

wheel-figures: ## the size of dist/*.whl, and how long `import rota` takes, compared with a bare interpreter
	$(PYTHON) scripts/wheel-figures dist

container: ## build and run the image's last stage in namespaces, with dist/*.whl (root; apt-get install debootstrap)
	$(PYTHON) scripts/container dist

bench: wheel ## time heartbeats and the start with the release build, compared with their floors
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[bench]"
	build/bench/bin/python -m pytest -c benches/pytest.ini benches
	build/bench/bin/python benches/startup.py

bench-gate: ## count instructions of fixed workloads; 5 % above the baseline fails (BENCH_ARGS=--update; valgrind)
	$(PYTHON) -m benches.gate $(BENCH_ARGS)

ratios: wheel ## measure every goal with its rival or floor (20 min; BENCH_ARGS='--quick --json PERF-3'; JDK, Maven, Go)
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[test]"
	cargo build --quiet --release -p rota-benches --examples
	build/bench/bin/python -m benches.ratios $(BENCH_ARGS)

bench-growth: ## time a heartbeat with 1,000 to 10,000,000 members, and changes of large groups (MEMBERS='1000 100000'; 10 GB)
	cargo build --quiet --release -p rota-benches --example core_path
	for members in $(MEMBERS); do \
		took=$$(cargo run --quiet --release -p rota-benches --example core_path requests $$members 3) || exit 1; \
		echo "$$members members: $$took"; \
	done
	cargo build --quiet --release -p rota-benches --example large_group
	for members in $(GROUP_MEMBERS); do \
		took=$$(cargo run --quiet --release -p rota-benches --example large_group $$members) || exit 1; \
		echo "$$members members of one group: $$took"; \
	done

bench-churn: ## time heartbeats of 100,000 members while 100 a second are replaced (CHURN='MEMBERS CHANGES SECONDS')
	cargo run --quiet --release -p rota-benches --example churn $(CHURN)

bench-durable: wheel ## time durable commits and starts, compared with Kafka and the disk, release build (20 min; JDK, Maven)
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[test]"
	cargo build --quiet --release -p rota-benches --example commit_load
	build/bench/bin/python -m benches.durable $(BENCH_ARGS)

chaos: develop ## faults of servers, engines and networks, N each; what ignores the epoch is found (FAULTS=1000: hours; etcd, PostgreSQL, root)
	PLANTED_ALL=1 $(BIN)/python -m pytest -n 0 tests/server/test_cluster_on_engines.py -k planted_build
	for run in etcd postgresql "etcd --network"; do \
		$(BIN)/python -m tests.server.chaos --engine $$run --faults $(or $(FAULTS),1000) --seed $(SEED) $(if $(shell command -v go),--porcupine) \
			--json "build/chaos/$${run/ --/-}.json"; \
	done

bench-transactions: wheel ## time transactions and the start with 100,000 transactional ids, compared with Kafka, release build (6 min; JDK, Maven)
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[test]"
	build/bench/bin/python -m benches.transactions $(BENCH_ARGS)

bench-cluster: wheel ## time takeovers and commits of several servers over etcd, release build (5 min; BENCH_ARGS='kill commits'; etcd)
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[test]"
	cargo build --quiet --release -p rota-benches --example commit_load
	cargo build --quiet --release -p rota-etcd --example floor
	build/bench/bin/python -m benches.cluster $(BENCH_ARGS)

bench-space: wheel ## commit 10,000 times a second for an hour: etcd's file, and commits beside its compaction and snapshots (BENCH_ARGS='--partitions 8'; etcd)
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[test]"
	cargo build --quiet --release -p rota-benches --example commit_load
	build/bench/bin/python -m benches.engine_space $(BENCH_ARGS)

bench-availability: wheel ## the table of high availability: etcd, PostgreSQL and Kafka, release build (10 min; BENCH_ARGS='etcd --rounds 5')
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[test]"
	cargo build --quiet --release -p rota-benches --example commit_load
	cargo build --quiet --release -p rota-etcd --example floor
	build/bench/bin/python -m benches.high_availability $(BENCH_ARGS)

bench-reads: wheel ## time fetches of offsets that wait for the engine (`--reads fenced`) beside those that do not, release build (2 min; etcd, PostgreSQL)
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[test]"
	cargo build --quiet --release -p rota-benches --example commit_load
	build/bench/bin/python -m benches.fenced_reads $(BENCH_ARGS)

bench-assign: develop ## time the assignors, compared with Kafka's classes, release build (some minutes; needs a JDK and Maven)
	$(BIN)/python -m benches.assignors $(BENCH_ARGS)

compare-assignors: develop ## compare the assignors' plans with Kafka's classes on 10,000 random groups (JDK, Maven)
	$(BIN)/python -m tests.assign.differential $(COMPARE_ARGS)

bench-hostile: wheel ## time a client while a hostile one runs, release build (about 4 min; BENCH_ARGS=--first)
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)"
	build/bench/bin/python -m benches.hostile $(BENCH_ARGS)

bench-nodes: ## count what a heartbeat takes with 1, 2 and 4 nodes of one process, instructions and CPU, release build (2 min; valgrind)
	$(PYTHON) -m benches.nodes $(BENCH_ARGS)

bench-observing: wheel ## count the cost of metrics and causes in instructions, and of --http in CPU, release build (valgrind)
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[http]"
	build/bench/bin/python -m benches.observing $(BENCH_ARGS)

fuzz: ## decode 10^8 damaged frames (FRAMES=..., SEED=... continues another run)
	ROTA_FRAMES=$(FRAMES) ROTA_SEED=$(SEED) cargo test --release -p rota-wire --test damaged_frames a_million -- --nocapture

fuzz-target: ## coverage-guided: TARGET=requests|batches|records|embedded for SECONDS=60 (nightly, cargo install cargo-fuzz)
	$(PYTHON) rust/fuzz/seeds.py
	cd rust && cargo +nightly fuzz run --fuzz-dir fuzz $(TARGET) -- -max_total_time=$(SECONDS) -rss_limit_mb=1024 \
		-max_len=4096 -timeout=5

bench-audit: wheel ## time the audit, compared with one Rust thread (EVENTS=1000000,10000000; some minutes)
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[audit]"
	build/bench/bin/python benches/audit.py --events $(EVENTS)

audit-worlds: wheel ## audit simulated worlds of 10^6 events: no violation may be found (WORLDS=800; minutes)
	$(PYTHON) -m venv build/bench
	build/bench/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[audit]"
	rm -rf build/worlds
	build/bench/bin/rota simulate --seeds 0..$(WORLDS) --journal build/worlds
	build/bench/bin/rota audit build/worlds

audit-long: ## bench-audit with 10^8 events: an hour, and 20 GB of disk
	$(MAKE) bench-audit EVENTS=100000000

simulate: ## run worlds of coordinators and members under faults (SEEDS=10000; 1000000 is the long run, 2 hours; KIND=all)
	cargo run --quiet --profile long -p rota-sim -- simulate $(SEEDS) $(SEED) $(KIND)

conform: ## compare the answers of the server in dist/*.whl with those of Apache Kafka (about 1 min)
	PYTHON=$(PYTHON) scripts/conform dist

conformance: develop ## record Apache Kafka, rota and others again, and write docs/generated/conformance.md (JDK, Maven; many minutes)
	$(BIN)/python -m tests.conform.record $(SYSTEMS)

conformance-check: develop ## compare Apache Kafka 4.4 and rota, both asked now (JDK, Maven; about 5 min)
	$(BIN)/python -m tests.conform.record --check

explore: ## visit every state of the core within small bounds, some minutes (STATES=500000)
	cargo run --quiet --profile long -p rota-sim -- explore all $(or $(STATES),500000) $(WORKERS)
	cargo run --quiet --profile long -p rota-sim -- consumers all $(or $(STATES),500000) $(WORKERS)

explore-engine: ## visit every state of the engine's protocol within larger bounds, release build, some minutes
	cargo test --quiet --release -p rota-engine --test exploration -- --include-ignored --nocapture

explore-txn: ## visit every state of the transaction coordinator within larger bounds, release build, some minutes
	cargo test --quiet --release -p rota-txn --test exploration -- --include-ignored --nocapture

conform-fuzz: develop ## play random sessions to Apache Kafka and rota in lockstep (JDK, Maven; PROTOCOL=consumer, SEED=0)
	$(BIN)/python -m tests.conform.fuzz --protocol $(PROTOCOL) --policy $(POLICY) --seconds $(SECONDS_PLAYED) --seed $(SEED)

specs-inputs: develop ## compare the proved formulas of wheel and certifier with Rust, 1,000,000 inputs each (INPUTS=...)
	$(BIN)/python -m tests.checks.spec_inputs $(INPUTS)

docs: venv ## build the site of docs/ with the API reference into build/site; a broken link fails (no network once installed)
	@test -x $(BIN)/mkdocs || $(MAKE) develop
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo build/site/index.html

drawings: develop ## draw the crates and layers of docs/architecture.md from the tree
	$(BIN)/python -m tests.checks.drawings

picture: develop ## run the demo and write its last table as docs/generated/demo.svg
	$(BIN)/python scripts/demo-picture

demo: develop ## watch a group live, about 30 s (DEMO_ARGS=--json for a summary)
	$(BIN)/rota demo $(DEMO_ARGS)

clean: ## remove the files that the other targets make
	rm -rf $(VENV) dist build target .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests -name __pycache__ -type d -prune -exec rm -rf {} +
