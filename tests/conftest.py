"""Fixtures of all tests: the whole product, started once, and its collector; the marks of slow tests."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

from service.receipts.signing_key import SigningKey
from tests.e2e.collector import Collector
from tests.e2e.stack import HOLDABLE, Stack, started
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

TESTS = Path(__file__).parent
CUDA_DRIVER = Path("/dev/nvidiactl")  # absent if no device is accessible
SLOW_FIXTURES = {"stack", "redis", "shared_redis", "postgres"}  # the whole product; a server of Redis or PostgreSQL
PRODUCTS = {"stack", "guarded", "vision"}  # fixtures of the whole product, each started once per test process
SLOW_FOLDERS = {TESTS / "e2e", TESTS / "clients"}  # need npm, a browser or other clients' environments

# Each run tries the same examples, however slow the machine is; `make fuzz` tries new ones.
hypothesis.settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("repeatable")


def pytest_configure() -> None:
    """Restore Ctrl-C for processes that tests start, which a shell disables for background jobs.

    Collecting the tests makes many objects and little garbage. No test trusts a public certificate authority, and each
    HTTP client would read the certificates of all of them, for 20 ms.
    """
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = os.devnull
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no slow folder for a run without slow tests."""
    return True if config.option.markexpr == "not slow" and collection_path in SLOW_FOLDERS else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Collect garbage of tests only, and not look through what was imported again and again."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of some folders and fixtures as slow; other tests use the decorator.

    Tests marked `cuda` are skipped if there is no such device.
    Tests marked `long`, `soak`, `large`, `cluster`, `deploy`, `kernels` or `ray` run only if `-m` names the mark.
    Files with slow tests, which mostly wait for processes, alternate with the others, which compute.
    """
    for name in ("long", "soak", "large", "cluster", "deploy", "kernels", "ray"):
        if name not in config.option.markexpr:
            config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker(name)])
            items[:] = [item for item in items if not item.get_closest_marker(name)]
    for item in items:
        if item.get_closest_marker("cuda") and not CUDA_DRIVER.exists():
            item.add_marker(pytest.mark.skip(reason="no CUDA device here"))
        if SLOW_FOLDERS.intersection(item.path.parents) or SLOW_FIXTURES.intersection(
            getattr(item, "fixturenames", ())
        ):
            item.add_marker(pytest.mark.slow)
    items[:] = alternated(items)
    share_products(items, by_ids=getattr(config.option, "loadgroup", False))


class ProductScheduling(LoadGroupScheduling):  # type: ignore[misc]  # the package has no types
    """Runs the files of a group in one process, and each other file in one process."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """Schedule by groups and files for `--dist loadgroup`."""
    return ProductScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


def share_products(items: list[pytest.Item], *, by_ids: bool) -> None:
    """Group the files whose tests use the whole product, so that few test processes start it.

    The files that need API keys or images are one group, the others two. `by_ids`: the scheduler reads a test's group
    behind the last `@` of its id. xdist 3.8 would add it, but sets an attribute that pytest has not read since 9.2.
    """
    used: dict[Path, set[str]] = {}
    for item in items:
        used.setdefault(item.path, set()).update(PRODUCTS.intersection(getattr(item, "fixturenames", ())))
    plain = [file for file, products in used.items() if products == {"stack"}]
    names = {file: "keys and images" for file, products in used.items() if products}
    names |= {file: f"product {index % 2 + 1}" for index, file in enumerate(plain)}
    for item in items:
        if item.path in names and by_ids:
            item._id = type(item.id).parse(f"{item.nodeid}@{names[item.path]}")  # noqa: SLF001


def alternated(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the items, file by file, with the files of slow tests spread evenly among the others."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [file for file, of_file in files.items() if any(item.get_closest_marker("slow") for item in of_file)]
    computing = [file for file in files if file not in waiting]
    position = {file: (index + 0.5) / len(group) for group in (waiting, computing) for index, file in enumerate(group)}
    return [item for file in sorted(files, key=position.__getitem__) for item in files[file]]


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """An OTLP collector."""
    collector = Collector()
    yield collector
    collector.stop()


@pytest.fixture(scope="session")
def stack(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Service, gateway and Envoy on the bundled model, ready."""
    key_file = tmp_path_factory.mktemp("receipts") / "key.pem"
    SigningKey.create(key_file)
    environment = HOLDABLE | {
        "OTEL_BSP_SCHEDULE_DELAY": "200",  # milliseconds until spans are exported
        "SLUICE_SERVICE_RECEIPTS__KEY_FILE": str(key_file),
    }
    options = ("--store-responses", f"--otlp-endpoint=http://127.0.0.1:{collector.port}")
    with started(*options, environment=environment) as stack:
        yield stack


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A separate Redis server for each test."""
    server = RedisServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server, for all tests of a process."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> PostgresServer:
    """A PostgreSQL server without tables of this project."""
    postgres_server.reset()
    return postgres_server
