"""Envoy's configuration for a fleet: the result for a fleet's file, and rejected files."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.proxy.eds import Host, read_hosts, write_hosts
from runner.proxy.envoy_config import FILE, Addresses, connection_manager, envoy_config
from runner.proxy.fleet import Fleet, FleetError, read_fleet
from runner.proxy.production import main, production_config, write_first_hosts
from runner.tls.certificates import make_certificates

EXAMPLE = FILE.with_name("fleet.yaml")
A = {"models": ["m"], "hosts": ["h:1"]}
SMALL: dict[str, Any] = {"gateways": ["127.0.0.1:8000"], "services": [{"hosts": ["127.0.0.1:50051"]}]}


def check_with_envoy(config: dict[str, Any], folder: Path) -> None:
    """Check that Envoy itself accepts the configuration."""
    path = folder / "envoy.yaml"
    path.write_text(yaml.safe_dump(config))
    envoy = Path(sys.executable).with_name("envoy")
    done = subprocess.run(
        [envoy, "--mode", "validate", "-l", "warning", "-c", path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "eprecated" in done.stderr) == (0, False), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("with_files", [False, True])
def test_envoy_accepts_the_example(with_files: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """The example is valid with listed hosts, and with EDS files, TLS and a collector."""
    fleet = read_fleet(EXAMPLE)
    if with_files:
        make_certificates(tmp_path, ["localhost"], 1)
        services = [{"hosts": ["10.0.0.4:50051", "[2001:db8::1]:50051"]}, fleet.services[1].model_dump()]
        given = {
            **fleet.model_dump(),
            "services": services,
            "hosts_folder": tmp_path,
            "otlp_endpoint": "collector:4317",
        }
        fleet = Fleet.model_validate({**given, "tls": {"certificates": tmp_path, "secrets": tmp_path}})
        write_first_hosts(fleet)
    check_with_envoy(production_config(fleet), tmp_path)


def test_fleet_configuration_keeps_the_limits_of_envoy_yaml() -> None:
    """The configuration differs from envoy.yaml only in the routes of gRPC and the retries."""
    fleet = Fleet.model_validate({**SMALL, "listen": "127.0.0.1:8080"})
    made = production_config(fleet)
    addresses = Addresses(envoy_port=8080, envoy_admin_port=9901, gateway_port=8000, service_port=50051)
    single = envoy_config(addresses)
    assert made["overload_manager"] == single["overload_manager"]
    ours, theirs = copy.deepcopy(connection_manager(made)), copy.deepcopy(connection_manager(single))
    for manager in (ours, theirs):
        (host,) = manager["route_config"]["virtual_hosts"]
        host["routes"] = [route for route in host["routes"] if not route["name"].startswith("grpc")]
        host["retry_policy"] = {}
    assert ours == theirs
    breakers = {each["name"]: each["circuit_breakers"] for each in single["static_resources"]["clusters"]}
    for cluster in made["static_resources"]["clusters"]:
        assert cluster["circuit_breakers"] == breakers[cluster["name"].removesuffix("-affinity")]
    assert {*breakers, "service-affinity"} == {each["name"] for each in made["static_resources"]["clusters"]}


def test_limits_of_requests_in_flight_are_divided_among_all_threads() -> None:
    """A thread of Envoy knows neither the others nor other Envoys."""
    config = production_config(Fleet.model_validate({**SMALL, "threads": 4, "envoys": 2}))
    (found,) = (each for each in connection_manager(config)["http_filters"] if each["name"] == "admission")
    assert found["typed_config"]["config"]["configuration"]["value"].startswith("8;10000;")


def test_model_names_are_encoded_as_gateways_do() -> None:
    """The header encodes slashes, and the regular expression escapes dots."""
    pools = [{"hosts": ["h:1"]}, {"name": "org", "models": ["org/m-1.5", "b"], "hosts": ["[::1]:1"]}]
    config = production_config(Fleet.model_validate({**SMALL, "services": pools}))
    (host,) = connection_manager(config)["route_config"]["virtual_hosts"]
    routes = {route["name"]: route for route in host["routes"]}
    found = [(name, route["route"]["cluster"]) for name, route in routes.items() if name.startswith("grpc")]
    assert found == [
        *((f"grpc-client-streams-{pool}", f"{pool}-uploads") for pool in ("org", "service")),
        *((f"grpc-watch-{pool}", f"{pool}-watch") for pool in ("org", "service")),
        *((f"grpc-check-{name}", name) for name in ("org-affinity", "org", "service-affinity", "service")),
        *(
            (f"grpc-large-{kind}{pool}", f"{pool}-uploads")
            for kind in ("generation-", "inference-", "")
            for pool in ("org", "service")
        ),
        *(
            (f"grpc-{kind}-{name}", name)
            for kind in ("inference-stream", "generation", "inference")
            for name in ("org-affinity", "org", "service-affinity", "service")
        ),
        *((f"grpc-{name}", name) for name in ("org-affinity", "org", "service-affinity", "service")),
    ]
    _, by_model = routes["grpc-org"]["match"]["headers"]
    assert by_model == {"name": "x-sluice-model", "string_match": {"safe_regex": {"regex": r"org%2Fm\-1\.5|b"}}}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"services": []}, "services: List should have at least 1 item"),
        ({"services": [{"name": "a", "models": ["m"], "hosts": ["h:1"]}]}, "one pool must be named 'service'"),
        ({"services": [{"hosts": ["h:1"]}, {"name": "a", "hosts": ["h:1"]}]}, "pool 'a' has no models"),
        ({"services": [{"hosts": ["h:1"], "models": ["m", "m"]}]}, "'m' is in two pools"),
        ({"services": [{}]}, "pool 'service' has no hosts"),
        ({"services": [{"hosts": ["h:1"]}, {**A, "name": "service-watch"}]}, "'service-watch' is the name of another"),
        ({"services": [{"hosts": ["h:1"]}, {**A, "name": "gateway-operators"}]}, "'gateway-operators' is the name of"),
        ({"gateways": ["nowhere"]}, "gateways.0: Value error, 'nowhere' is not a host:port"),
        ({"gateway": ["h:1"]}, "gateway: Extra inputs are not permitted"),
        ({"otlp_endpoint": "h:x"}, "otlp_endpoint 'h:x' must be"),
        ({"hosts_folder": "hosts", "gateways": ["h:1"]}, "gateway: 'h:1' must be an IP address and a port, because"),
    ],
)
def test_an_invalid_fleet_is_rejected(
    change: dict[str, Any], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line names the problem, and nothing is written."""
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **change}))
    assert main([str(path), "--output", str(tmp_path / "envoy.yaml")]) == 1
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert not (tmp_path / "envoy.yaml").exists()


def test_written_hosts_are_read_back(tmp_path: Path) -> None:
    """Hosts are written by the command or by a controller, and an existing file is kept."""
    folder, path = tmp_path / "hosts", tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump({**SMALL, "hosts_folder": str(folder)}))
    assert main([str(path), "--output", str(tmp_path / "envoy.yaml")]) == 0
    assert read_hosts(folder, "service") == [Host("127.0.0.1", 50051)]
    hosts = [Host("10.0.0.1", 1, weight=3), Host("::1", 2)]
    write_hosts(folder, "service", hosts)
    assert main([str(path), "--output", str(tmp_path / "envoy.yaml")]) == 0
    assert read_hosts(folder, "service") == hosts
    assert main([str(path), "--hosts", "service=", "--hosts", "gateway=10.0.0.2:8000,10.0.0.3:8000"]) == 0
    assert read_hosts(folder, "service") == []
    assert read_hosts(folder, "gateway") == [Host("10.0.0.2", 8000), Host("10.0.0.3", 8000)]
    assert sorted(each.name for each in folder.iterdir()) == ["gateway.json", "service.json"]


@pytest.mark.parametrize("given", ["other=h:1", "service=h", "service=localhost:1", "service=10.0.0.1:1,a.b:2"])
def test_invalid_hosts_are_rejected(given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown pool, an invalid address and a host name are rejected, and no file is written."""
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump({**SMALL, "hosts_folder": str(tmp_path)}))
    assert main([str(path), "--hosts", "gateway=10.0.0.2:8000", "--hosts", given]) == 1
    assert f"--hosts {given}: " in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["fleet.yaml"]


def test_error_about_a_missing_file_names_it(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(FleetError, match=r"none\.yaml: No such file"):
        read_fleet(tmp_path / "none.yaml")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([str(EXAMPLE)], 0),
        (["missing.yaml"], 1),
        ([str(EXAMPLE), "--output", "missing/envoy.yaml"], 1),
        ([str(EXAMPLE), "--hosts", "service=10.0.0.1:1"], 1),
        ([str(EXAMPLE), "--nothing"], 2),
        ([], 2),
    ],
)
def test_envoy_command_exits_with_1_after_errors_and_2_after_usage_errors(
    arguments: list[str], code: int, tmp_path: Path
) -> None:
    """`sluice envoy` exits with 1 after an error, in one line, and with 2 for an unknown or missing argument."""
    done = subprocess.run(
        [sys.executable, "-m", "cli", "envoy", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert done.stderr.count("\n") == 1 if code == 1 else code == 2 or not done.stderr
