# `make` lists the targets. Each installs what it needs first (tools/install.sh).
PY := .venv/bin/python
BUF := .cache/npm/node_modules/.bin/buf
BASE ?= main
MINUTES ?= 30
TEST_PARTS := dev native npm validate clients examples browser redis docs
# Where bytecode isn't kept, each of the hundreds of processes of a test run compiles every module again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help run test test-fast test-slow test-hostile test-deploy test-cluster test-ray test-clients test-languages test-examples models soak fuzz check docs sanitize generate pictures pins audit envoy-filter release-contract bench bench-gpu dist clean
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
run:  ## start service, gateway and Envoy on the bundled model; TLS=server or TLS=mutual: with TLS
	@{ tools/install.sh run native-host || tools/install.sh run; } && exec $(PY) -m runner $(if $(TLS),--tls=$(TLS))
test:  ## run all tests that take less than minutes, in twelve minutes
	@tools/install.sh $(TEST_PARTS) && $(PY) -m tools.docs_site && $(PY) -m pytest -n 4 --dist loadfile --no-loadscope-reorder
test-fast:  ## run the tests that need neither npm nor a browser nor the whole product, in 90 seconds
	@tools/install.sh dev native && $(PY) -m pytest -m "not slow" -n 2 --dist worksteal
test-slow:  ## run the tests that take minutes
	@tools/install.sh $(TEST_PARTS) && $(PY) -m pytest -m long -n 2 --dist loadfile
test-hostile:  ## run all tests while a busy loop for each core takes half of the machine
	@tools/busy.sh $(MAKE) -s test test-slow
test-cluster:  ## replace every process of a fleet under load: three services, two gateways, Envoy
	@tools/install.sh dev native redis && $(PY) -m pytest -m cluster tests
test-ray:  ## scale, replace and heal replicas on the nodes of a Ray cluster, under load
	@tools/install.sh dev native ray && .venvs/ray/bin/python -m pytest -m "ray or not ray" tests/cluster
test-examples:  ## try every example of README.md and docs/ 40 times (EXAMPLE_TRIES) against the product
	@tools/install.sh dev native npm clients && EXAMPLE_TRIES=$(or $(EXAMPLE_TRIES),40) $(PY) -m pytest --timeout 1200 tests/e2e/test_examples.py
test-languages:  ## install the toolchains of examples/, run all of them, and count the languages that do all they should
	@tools/install.sh dev native npm clients examples languages && $(PY) -m tests.languages && $(MAKE) -s -C examples/csharp
test-clients:  ## run the tests of all clients, those too large for `make test` too: benchmarks, lm-eval, frameworks
	@tools/install.sh dev native npm clients large-clients && $(PY) -m pytest -m "large or not large" tests/clients
test-deploy:  ## run the tests of rules, dashboards, containers and the chart: promtool, a real Prometheus, Helm's own code
	@tools/install.sh dev native prometheus deploy && $(PY) -m pytest -m "deploy or not deploy" tests/deploy
models:  ## try every architecture that transformers has, and write docs/models.md
	@tools/install.sh dev native && $(PY) -m tests.models
soak:  ## run mixed load for MINUTES (30), and the faults that take long to show; fails if anything leaks or is lost
	@tools/install.sh dev native && $(PY) -m pytest -m soak tests/e2e && $(PY) -m tests.soak $(MINUTES)
fuzz:  ## try random bodies and messages against the whole product, EXAMPLES (300) of each kind
	@tools/install.sh dev native && FUZZ_EXAMPLES=$(or $(EXAMPLES),300) $(PY) -m pytest tests/e2e/test_fuzz.py
check:  ## run the static checks: lint, types, imports, protobuf, generated code, Envoy, word list, scripts
	@tools/install.sh dev npm validate shell && BASE=$(BASE) tools/check.sh
docs:  ## build the documentation's pages, which the gateway then serves at /docs/
	@tools/install.sh run docs && $(PY) -m tools.docs_site
sanitize:  ## run the native step's fuzzer with sanitizers of memory, undefined behaviour and threads
	@tools/install.sh cmake && for kind in memory threads; do PATH="$$PWD/.venv/bin:$$PATH" native/sanitize.sh $$kind || exit; done
generate:  ## make generated/ from proto/, and the pages of fields and settings
	@tools/install.sh dev npm validate && $(BUF) format -w proto && $(BUF) generate --config buf.rules.yaml && $(PY) tools/python_client.py && $(PY) -m tools.contract_reference && $(PY) -m tools.settings_reference
release-contract:  ## keep the contract of this version, which later ones must not break
	@tools/install.sh dev npm validate && tools/release_contract.sh
bench:  ## measure against llama.cpp's server and transformers serve, then the parts; see bench/README.md
	@tools/install.sh bench native llama redis && for part in serving engine_step step_overhead long_prompt native_step speculation start quantization load_memory sampler_rows engine_worker gateway_stream way_out client quota overload private_prefix affinity inner_hop; do $(PY) -m bench.$$part || exit; done
bench-gpu:  ## measure on the CUDA device here, beside transformers serve where both fit; see docs/gpu.md
	@tools/install.sh bench native && for run in "0.5b 8b --servers sluice:engine.device_memory=0.45 transformers" "32b --servers sluice"; do $(PY) -m bench.serving chats prefix --device cuda --prompts 128 2048 --streams 1 16 64 256 --results .cache/bench/gpu.json --models $$run || exit; done
pictures:  ## make the README's pictures anew: a terminal's recording, and the page to chat on
	@tools/install.sh dev native npm browser && $(PY) -m tools.pictures
pins:  ## make constraints.txt, the clients' and npm's pins anew; versions that fit stay
	@tools/install.sh dev npm && $(PY) tools/pins.py lock
audit:  ## look for known vulnerabilities in what is pinned
	@tools/install.sh dev npm audit && $(PY) tools/audit.py
envoy-filter:  ## build envoy/connections_by_address.c into envoy/envoy.yaml
	@tools/install.sh run zig && $(PY) tools/envoy_filter.py .cache/zig/ziglang/zig
dist:  ## build a release into dist/ and try it: packages, the contract in both forms, SBOM, checksums
	@tools/install.sh dev native npm validate docs dist && ls dist
clean:  ## remove all that was installed or built
	rm -rf .venv .venvs .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build gateway/page/site native/build dist *.egg-info examples/node_modules examples/*/build
