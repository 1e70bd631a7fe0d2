# `make` lists the targets. Each installs what it needs first (tools/install.sh).
PY := .venv/bin/python
BUF := .cache/npm/node_modules/.bin/buf
BASE ?= main
MINUTES ?= 30
CHECK_PARTS := dev npm validate shell
TEST_PARTS := dev native npm validate clients examples browser redis postgres docs
# Without stored bytecode, each of the hundreds of processes of a test run would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help run test test-fast test-slow test-hostile test-deploy test-cluster test-ray test-kernels test-clients test-languages test-examples models soak fuzz check install-checks install-tests docs sanitize generate pictures pins audit envoy-filters release-contract bench bench-gpu dist clean
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
run:  ## start service, gateway and Envoy on the bundled model; TLS=server or TLS=mutual: with TLS
	@{ tools/install.sh run native-host || tools/install.sh run; } && exec $(PY) -m runner $(if $(TLS),--tls=$(TLS))
test:  ## run all tests except those that take minutes each, in about 12 minutes on two idle cores
	@tools/install.sh $(TEST_PARTS) && $(PY) -m tools.docs.docs_site && $(PY) -m pytest -n 4 --dist loadgroup --no-loadscope-reorder
test-fast:  ## run the tests that need no npm, browser or running product, in less than two minutes
	@tools/install.sh dev native && $(PY) -m pytest -m "not slow" -n 2 --dist worksteal
test-slow:  ## run the tests that take minutes
	@tools/install.sh $(TEST_PARTS) && $(PY) -m tools.docs.docs_site && $(PY) -m pytest -m long -n 3 --dist loadfile
test-hostile:  ## run all tests while a busy loop per core uses half of the machine
	@tools/busy.sh $(MAKE) -s test test-slow
test-cluster:  ## replace every process of a fleet under load: three services, two gateways, Envoy
	@tools/install.sh dev native redis && $(PY) -m pytest -m cluster tests
test-kernels:  ## run the kernels for GPUs in Triton's interpreter on this CPU
	@tools/install.sh dev native triton && PYTHONPATH=.cache/triton TRITON_INTERPRET=1 $(PY) -m pytest -m kernels tests/engine/models
test-ray:  ## scale, replace and heal replicas on the nodes of a Ray cluster, under load
	@tools/install.sh dev native ray && .venvs/ray/bin/python -m pytest -m "ray or not ray" tests/cluster
test-examples:  ## run every example of README.md and docs/ 40 times (EXAMPLE_TRIES) against the product
	@tools/install.sh dev native npm clients && EXAMPLE_TRIES=$(or $(EXAMPLE_TRIES),40) $(PY) -m pytest --timeout 1200 tests/e2e/clients/test_examples.py
test-languages:  ## install the toolchains of examples/, run all of them, and count the languages that pass
	@tools/install.sh dev native npm clients examples languages && $(PY) -m tests.languages && $(MAKE) -s -C examples/csharp
test-clients:  ## run the tests of all clients, including those too large for `make test`: benchmarks, lm-eval, frameworks
	@tools/install.sh dev native npm clients large-clients && $(PY) -m pytest -m "large or not large" tests/clients
test-deploy:  ## run the tests of rules, dashboards, containers and the chart: promtool, a real Prometheus, Helm's own code
	@tools/install.sh dev native prometheus deploy && $(PY) -m pytest -m "deploy or not deploy" tests/deploy
models:  ## test every architecture of transformers, and write docs/models.md
	@tools/install.sh dev native && $(PY) -m tests.models
soak:  ## run mixed load for MINUTES (30), and slow fault tests; fails if anything leaks or is lost
	@tools/install.sh dev native && $(PY) -m pytest -m soak tests/e2e && $(PY) -m tests.soak $(MINUTES)
fuzz:  ## send random bodies and messages to the whole product, random histories to engines, EXAMPLES (300) of each; kill services, engines, gateways and databases, and set clocks, at KILLS (200) instants; replay 1,000 answers; mutate files
	@tools/install.sh dev native && FUZZ_EXAMPLES=$(or $(EXAMPLES),300) $(PY) -m pytest --timeout=$$((300 + 20 * $(or $(EXAMPLES),300))) tests/e2e/hostile/test_fuzz*.py tests/engine/core/test_state_histories.py tests/native/engine/test_state_histories.py
	@BACKGROUND_KILLS=$(or $(KILLS),200) $(PY) -m pytest -m "slow or long" tests/e2e/faults/test_background_kills.py
	@RECEIPTS=1000 $(PY) -m pytest --timeout=7200 tests/service/server/test_random_receipts.py
	@WORKER_KILLS=$(or $(KILLS),200) $(PY) -m pytest -m long tests/native/engine/test_cache_handover.py
	@IMPORT_KILLS=$(or $(KILLS),200) $(PY) -m pytest tests/service/storage/faults/test_import_faults.py
	@BATCH_KILLS=$(or $(KILLS),200) $(PY) -m pytest -m long tests/e2e/faults/test_batch_kills.py
	@GATEWAY_KILLS=$(or $(KILLS),200) $(PY) -m pytest -m long tests/e2e/faults/test_gateway_kills.py
	@CLOCK_JUMPS=$(or $(KILLS),200) $(PY) -m pytest tests/service/storage/faults/test_random_clock_jumps.py
	@FUZZ_FILES=100000 $(PY) -m pytest --timeout=7200 tests/engine/models/checkpoint/test_gguf_header.py
check:  ## run the static checks: lint, types, imports, protobuf, generated code, Envoy, word list, scripts
	@tools/install.sh $(CHECK_PARTS) && BASE=$(BASE) tools/check.sh
install-checks:  ## install what `make check` needs
	@tools/install.sh $(CHECK_PARTS)
install-tests:  ## install what `make test` needs; while `make check` runs, if install-checks has ended
	@tools/install.sh $(TEST_PARTS)
docs:  ## build the documentation, which the gateway then serves at /docs/
	@tools/install.sh docs && $(PY) -m tools.docs.docs_site
sanitize:  ## run the C++ backend's fuzzer with sanitizers for memory, undefined behaviour and threads
	@tools/install.sh cmake && for kind in memory threads; do PATH="$$PWD/.venv/bin:$$PATH" native/sanitize.sh $$kind || exit; done
generate:  ## generate code from proto/, and the pages of fields and settings
	@tools/install.sh dev npm validate && $(BUF) format -w proto && $(BUF) generate --config buf.rules.yaml && $(PY) tools/contract/python_client.py && $(PY) -m tools.docs.contract_reference && $(PY) -m tools.docs.settings_reference
release-contract:  ## store the contract of this version, which later ones must not break
	@tools/install.sh dev npm validate && tools/contract/release_contract.sh
bench:  ## run all benchmarks: llama.cpp's server, transformers serve, the parts; see bench/README.md
	@tools/install.sh bench native llama redis && for part in serving engine.step engine.step_overhead replicas.long_prompt engine.native.native_step engine.speculation replicas.start engine.quantization engine.load_memory engine.embedding engine.sampler_rows engine.worker calls.gateway_stream calls.response_path calls.client calls.quota replicas.overload replicas.private_prefix replicas.affinity calls.inner_hop; do $(PY) -m bench.$$part || exit; done
bench-gpu:  ## measure on the CUDA device, together with transformers serve if both fit; see docs/models/gpu.md
	@tools/install.sh bench native && for run in "0.5b 8b --servers sluice:engine.device_memory=0.45 transformers" "32b --servers sluice"; do $(PY) -m bench.serving chats prefix start memory --device cuda --prompts 128 2048 --streams 1 16 64 256 --results .cache/bench/gpu.json --models $$run || exit; done
pictures:  ## update the README's pictures: a terminal recording, and the chat page
	@tools/install.sh dev native npm browser && $(PY) -m tools.docs.pictures
pins:  ## update constraints.txt, the clients' and npm's pins; keeps versions that fit
	@tools/install.sh dev npm && $(PY) tools/pins.py lock
audit:  ## check the pinned packages for known vulnerabilities
	@tools/install.sh dev npm audit && $(PY) tools/audit.py
envoy-filters:  ## build the filters in envoy/*.c into envoy/envoy.yaml
	@tools/install.sh run zig && $(PY) tools/envoy_filters.py .cache/zig/ziglang/zig
dist:  ## build a release in dist/ and test it: packages, the contract in both forms, SBOM, checksums
	@tools/install.sh dev native npm validate docs dist && ls dist
clean:  ## remove everything installed or built, except the state of runs (.state)
	rm -rf .venv .venvs .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build gateway/page/site native/build dist *.egg-info examples/node_modules examples/*/build
