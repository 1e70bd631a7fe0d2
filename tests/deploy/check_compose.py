"""Check a compose file against the specification, in the environment of `tools/install.sh deploy`."""

import sys

import compose_spec
import yaml

if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123  a script of four lines
        merged = yaml.safe_load(file)  # resolves YAML's merge keys
    compose_spec.PyCompose.from_yaml(yaml.safe_dump(merged, sort_keys=False)).validate()
