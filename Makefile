# Each target is one line; what it needs is installed first (tools/install.sh).
PY := .venv/bin/python
BUF := .cache/npm/node_modules/.bin/buf
BASE ?= main

.PHONY: run test check generate bench clean
run:  ## start service, gateway and Envoy on the bundled model
	@tools/install.sh run && exec $(PY) tools/run.py
test:  ## run all tests
	@tools/install.sh dev npm validate clients browser && $(PY) -m pytest
check:  ## lint, types, layers, contract, generated code
	@tools/install.sh dev npm validate && tools/check.sh
generate:  ## make generated/ from proto/
	@tools/install.sh dev npm validate && $(BUF) format -w proto && $(BUF) generate
bench:  ## measure against transformers serve, then the parts; see bench/README.md
	@tools/install.sh bench && for part in serving engine_step long_prompt sampler_rows gateway_stream; do $(PY) -m bench.$$part || exit; done
clean:  ## remove all that was installed or built
	rm -rf .venv .venvs .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build *.egg-info
