"""Lint and render the chart, and check the documents, in the environment of `tools/install.sh deploy`.

`render_chart.py CHART VALUES` prints the documents as JSON; VALUES is JSON. The exit code is 1, with a message, if Helm
fails. Kubernetes' own kinds are checked against its schemas; other kinds (KEDA, Prometheus' operator, the Gateway API)
are not checked.
"""

import json
import sys

import helm_python
import kubernetes_validate
import yaml

KUBERNETES = {"v1", "apps/v1", "policy/v1", "networking.k8s.io/v1"}
RELEASES = ("1.29", "1.37")


def main(chart: str, values: str) -> None:
    chosen = json.loads(values)
    try:
        with helm_python.Chart.load(chart) as loaded:
            loaded.validate_schema(chosen)
            rendered = loaded.render(chosen, name="demo", namespace="prod")
        errors = helm_python.lint(chart, values=chosen)["errors"]
    except helm_python.HelmError as error:
        sys.exit(str(error))
    if errors:
        sys.exit("\n".join(errors))
    documents = [
        document
        for name, text in sorted(rendered.items())
        if name.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document
    ]
    for document in documents:
        for release in RELEASES if document["apiVersion"] in KUBERNETES else ():
            kubernetes_validate.validate(document, release, strict=True)
    json.dump(documents, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
