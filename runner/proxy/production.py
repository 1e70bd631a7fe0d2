"""Envoy's configuration for several gateways and services: `sluice envoy FLEET`.

It combines envoy/envoy.yaml, which has all limits, envoy/production.yaml, which has the settings for replicas, and the
fleet's addresses.
"""

from __future__ import annotations

import argparse
import copy
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from runner.proxy.eds import Host, assignment, hosts_file, write_hosts
from runner.proxy.envoy_config import (
    FILE,
    GATEWAY,
    OPERATORS,
    SERVICE,
    UPLOADS,
    WATCH,
    AddressError,
    Addresses,
    connection_manager,
    envoy_config,
)
from runner.proxy.envoy_tls import EnvoyTls
from runner.proxy.fleet import DEFAULT, GATEWAYS, Fleet, FleetError, Pool, affinity_cluster, own_cluster, read_fleet

PRODUCTION = FILE.with_name("production.yaml")


def production_config(fleet: Fleet) -> dict[str, Any]:
    """Return the whole configuration. Raise AddressError. With TLS it writes the SDS files and may raise OSError."""
    parts: dict[str, Any] = yaml.safe_load(PRODUCTION.read_text())
    config = envoy_config(_addresses(fleet))
    resources = config["static_resources"]
    resources["listeners"][0]["address"] = fleet.listen.socket_address()
    config["admin"]["address"] = fleet.admin.socket_address()
    _divide_limits(config, fleet.threads * fleet.envoys)
    _replicate(resources, fleet, parts)
    (virtual_host,) = connection_manager(config)["route_config"]["virtual_hosts"]
    virtual_host["retry_policy"].update(parts["retry_policy"])
    to_services = []
    for base in [route for route in virtual_host["routes"] if route["name"].startswith("grpc")]:
        pool_routes = _routes(base, fleet, parts)
        position = virtual_host["routes"].index(base)
        virtual_host["routes"][position : position + 1] = pool_routes
        to_services += pool_routes
    resources["listeners"].append(_inner(fleet, parts, to_services, virtual_host["retry_policy"]))
    if fleet.tls is not None:
        EnvoyTls(**fleet.tls.model_dump()).apply(config)
    return config


def write_first_hosts(fleet: Fleet) -> None:
    """Write missing EDS files, because Envoy does not start without them. Raise OSError."""
    if (folder := fleet.hosts_folder) is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for pool, hosts in fleet.pools().items():
            if not hosts_file(folder, pool).exists():
                write_hosts(folder, pool, hosts)


def _addresses(fleet: Fleet) -> Addresses:
    """Return the addresses of a configuration for one gateway and one service, which `_replicate` replaces."""
    return Addresses(  # the clusters' ports are placeholders, replaced by the fleet's hosts
        host=fleet.listen.address,
        envoy_port=fleet.listen.port,
        envoy_admin_port=fleet.admin.port,
        gateway_port=1,
        service_port=1,
        otlp_endpoint=fleet.otlp_endpoint,
        cors_origins=tuple(fleet.cors_origins),
    )


def _divide_limits(config: dict[str, Any], num_parts: int) -> None:
    """Divide the limits of requests in flight among the threads of all Envoys, which count on their own."""
    (found,) = (each for each in connection_manager(config)["http_filters"] if each["name"] == "admission")
    configuration = found["typed_config"]["config"]["configuration"]
    _, _, periods = configuration["value"].partition(";")
    configuration["value"] = f"{num_parts};{periods}"


def _replicate(resources: dict[str, Any], fleet: Fleet, parts: dict[str, Any]) -> None:
    """Replace the clusters of one gateway and one service by the clusters of the fleet's pools."""
    single = {cluster["name"]: cluster for cluster in resources["clusters"]}
    names = (GATEWAY, OPERATORS, SERVICE, WATCH, UPLOADS)
    gateway, operators, service, *others = map(_without_host, map(single.pop, names))
    to_gateways = parts["clusters"]["gateway"] | _hosts(GATEWAYS, fleet, parts)
    clusters = [gateway | to_gateways, operators | to_gateways]
    for pool in fleet.services:
        for name, kind in ((pool.name, "service"), (affinity_cluster(pool.name), "affinity")):
            clusters.append(service | parts["clusters"][kind] | _hosts(pool.name, fleet, parts) | {"name": name})
        to_pool = parts["clusters"]["service"] | _hosts(pool.name, fleet, parts)
        clusters.extend(each | to_pool | {"name": own_cluster(pool.name, each["name"])} for each in others)
    resources["clusters"] = [*clusters, *single.values()]


def _without_host(cluster: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in cluster.items() if key not in {"type", "load_assignment"}}


def _hosts(pool: str, fleet: Fleet, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a cluster that has the pool's hosts, or the EDS file with them."""
    if (folder := fleet.hosts_folder) is None:
        return {**parts["hosts_by_name"], "load_assignment": assignment(pool, fleet.pools()[pool])}
    found: dict[str, Any] = copy.deepcopy(parts["hosts_by_file"])
    path = hosts_file(folder.absolute(), pool)
    source = {"path": str(path), "watched_directory": {"path": str(path.parent)}}
    found["eds_cluster_config"]["service_name"] = pool
    found["eds_cluster_config"]["eds_config"]["path_config_source"] = source
    return found


def _routes(base: dict[str, Any], fleet: Fleet, parts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a gRPC route for each pool, by model, and within a pool by the affinity header, if present."""
    routes = []
    has_affinity = base["route"]["cluster"] == SERVICE
    for pool in sorted(fleet.services, key=lambda pool: pool.name == DEFAULT):  # the default pool matches last
        for is_bound in (True, False) if has_affinity else (False,):
            route = copy.deepcopy(base)
            pool_cluster = own_cluster(pool.name, base["route"]["cluster"])
            cluster = affinity_cluster(pool.name) if is_bound else pool_cluster
            route["name"] = f"{base['name']}-{affinity_cluster(pool.name) if is_bound else pool.name}"
            route["route"]["cluster"] = cluster
            headers = route["match"].setdefault("headers", [])
            if pool.name != DEFAULT:
                of_pool = {"safe_regex": {"regex": _models(pool)}}
                headers.append({"name": parts["model_header"], "string_match": of_pool})
            if is_bound:
                headers.append({"name": parts["affinity_header"], "present_match": True})
                route["route"]["hash_policy"] = [{"header": {"header_name": parts["affinity_header"]}}]
            routes.append(route)
    return routes


def _models(pool: Pool) -> str:
    """Return the regular expression of a pool's models in the header, where gateways percent-encode names."""
    return "|".join(re.escape(quote(model, safe="")) for model in pool.models)


def _inner(
    fleet: Fleet, parts: dict[str, Any], routes: Sequence[dict[str, Any]], retry_policy: dict[str, Any]
) -> dict[str, Any]:
    """Return the listener for gateways."""
    listener: dict[str, Any] = parts["inner_listener"]
    listener["address"] = fleet.inner.socket_address()
    (chain,) = listener["filter_chains"]
    (host,) = chain["filters"][0]["typed_config"]["route_config"]["virtual_hosts"]
    host["routes"], host["retry_policy"] = copy.deepcopy(list(routes)), copy.deepcopy(retry_policy)
    for route in host["routes"]:
        route.pop("typed_per_filter_config", None)  # of filters that this listener doesn't have
    return listener


def main(arguments: Sequence[str]) -> int:
    """Write the configuration. Return the exit code, 1 for an invalid fleet."""
    parser = argparse.ArgumentParser(
        prog="sluice envoy", description="Write Envoy's configuration for several gateways and services."
    )
    parser.add_argument("fleet", type=Path, help="YAML file with their addresses; envoy/fleet.yaml is an example")
    parser.add_argument("--output", type=Path, help="file to write; default: standard output")
    parser.add_argument(
        "--hosts",
        action="append",
        default=[],
        metavar="POOL=HOST:PORT,…",
        help="only write a pool's file in hosts_folder; repeatable",
    )
    chosen = parser.parse_args(arguments)
    try:
        fleet = read_fleet(chosen.fleet)
        if chosen.hosts:
            _write_given(fleet, chosen.hosts)
            return 0
        write_first_hosts(fleet)
        text = yaml.safe_dump(production_config(fleet), sort_keys=False, width=120)
        if chosen.output is None:
            sys.stdout.write(text)
        else:
            chosen.output.write_text(text, encoding="utf-8")
    except (FleetError, AddressError, OSError) as error:
        sys.stderr.write(f"sluice envoy: {error}\n")
        return 1
    return 0


def _write_given(fleet: Fleet, given: Sequence[str]) -> None:
    """Write the hosts of the pools that the command line names. Raise FleetError or OSError."""
    if fleet.hosts_folder is None:
        raise FleetError("--hosts needs a hosts_folder in the fleet's file")
    found: list[tuple[str, list[Host]]] = []
    for each in given:
        pool, _, hosts = each.partition("=")
        if pool not in fleet.pools():
            raise FleetError(f"--hosts {each}: there is no pool {pool!r}; there are {', '.join(fleet.pools())}")
        try:
            found.append((pool, [Host.parse(host) for host in hosts.split(",") if host]))
            for host in found[-1][1]:
                host.require_ip()
        except ValueError as error:
            raise FleetError(f"--hosts {each}: {error}") from error
    for pool, parsed in found:
        write_hosts(fleet.hosts_folder, pool, parsed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
