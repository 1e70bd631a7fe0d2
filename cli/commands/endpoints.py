"""`sluice endpoints`: list the endpoints that requests can name, with their models."""

from __future__ import annotations

from cli.calls.options import DEFAULT, AsJson, CaFile, Key, Url, connected, print_json, print_table


def endpoints(as_json: AsJson = False, url: Url = DEFAULT, key: Key = "", ca_file: CaFile = "") -> None:
    """List the endpoints with their models."""
    with connected(url, key, ca_file) as server:
        found = server.get("/api/2.0/serving-endpoints").get("endpoints", [])
        if as_json:
            print_json(found)
            return
        rows = [("NAME", "TASK", "MODELS")]
        for endpoint in found:
            entities = endpoint.get("config", {}).get("served_entities", [])
            shown = ", ".join(entity.get("entity_name", entity.get("name", "")) for entity in entities)
            rows.append((endpoint["name"], endpoint.get("task", ""), shown))
        print_table(rows)
