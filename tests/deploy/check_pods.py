"""Check JSON documents against Kubernetes' own schemas, in the environment of `tools/install.sh deploy`."""

import json
import sys

import kubernetes_validate

if __name__ == "__main__":
    for document in json.load(sys.stdin):
        for release in ("1.29", "1.37"):
            kubernetes_validate.validate(document, release, strict=True)
