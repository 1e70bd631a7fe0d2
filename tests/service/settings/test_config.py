"""The settings: their sources, precedence, and errors."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from process.errors import ConfigError
from process.settings.process_settings import read_settings
from service.auth.settings import AuthSettings
from service.settings.bundled_models import DEMO_FOLDER, DEMO_NAME, EMBEDDING_NAME, embedding_folder
from service.settings.config import Settings


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)


def test_defaults_serve_the_bundled_models() -> None:
    """Without any configuration, the service listens on the documented addresses and serves the two bundled models."""
    settings = read_settings(Settings, [])
    assert (settings.host, settings.port, settings.metrics_port) == ("127.0.0.1", 50051, 9464)
    demo, encoder = settings.served_models()
    assert (demo.name, demo.path) == (DEMO_NAME, str(DEMO_FOLDER))
    assert (encoder.name, encoder.path) == (EMBEDDING_NAME, str(embedding_folder()))
    assert settings.otlp_endpoint is None
    assert not settings.capture_content


def test_context_length_is_not_for_the_bundled_encoder() -> None:
    """A context length that is set for the demo model does not apply to the encoder, which has a shorter one."""
    demo, encoder = read_settings(
        Settings, ["--engine.max-model-len=1000", "--engine.max-batch-tokens=77"]
    ).served_models()
    assert demo.engine is not None
    assert encoder.engine is not None
    assert (demo.engine.max_model_len, encoder.engine.max_model_len) == (1000, None)
    assert demo.engine.max_batch_tokens == encoder.engine.max_batch_tokens == 77


def test_backend_is_selected_by_an_engine_setting() -> None:
    """A flag selects it for all models; the default is `auto`."""
    by_itself, forced = (
        read_settings(Settings, flags).served_models()[0] for flags in ([], ["--engine.backend=transformers"])
    )
    assert by_itself.engine is not None
    assert forced.engine is not None
    assert (by_itself.engine.backend, forced.engine.backend) == ("auto", "transformers")


def test_missing_embedding_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one-line error has the command that installs it; with configured models the package isn't needed."""
    monkeypatch.setattr("service.settings.bundled_models.EMBEDDING_PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match=r"^models: none is given, .*requirements-embedding\.txt$"):
        read_settings(Settings, [])
    assert read_settings(Settings, ["--model=a=/a"]).served_models()


def test_flags_override_environment_and_environment_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The precedence is per setting."""
    file = tmp_path / "service.yaml"
    file.write_text("port: 1\nmetrics_port: 1\ndrain_delay_s: 1\n")
    monkeypatch.setenv("SLUICE_SERVICE_PORT", "2")
    monkeypatch.setenv("SLUICE_SERVICE_METRICS_PORT", "2")
    settings = read_settings(Settings, ["--config", str(file), "--port", "3"])
    assert (settings.port, settings.metrics_port, settings.drain_delay_s) == (3, 2, 1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("service.yaml", "models: [{name: a, path: /a, engine: {max_batch_tokens: 99}}, {name: b, path: /b}]"),
        (
            "service.toml",
            'models = [{name = "a", path = "/a", engine = {max_batch_tokens = 99}}, {name = "b", path = "/b"}]',
        ),
    ],
)
def test_models_in_a_file_have_their_own_settings(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """YAML and TOML files are equal; unset values are those of all models. A variable can name the file."""
    (tmp_path / name).write_text(text)
    monkeypatch.setenv("SLUICE_SERVICE_CONFIG", str(tmp_path / name))
    first, second = read_settings(Settings, ["--dtype=float32", "--engine.max-batch-tokens=77"]).served_models()
    assert first.engine is not None
    assert second.engine is not None
    assert (first.name, first.path, first.dtype, first.engine.max_batch_tokens) == ("a", "/a", "float32", 99)
    assert (second.name, second.path, second.dtype, second.engine.max_batch_tokens) == ("b", "/b", "float32", 77)


def test_chat_settings_of_one_model_in_a_file_apply_to_it(tmp_path: Path) -> None:
    """A system prompt, a tool syntax and reasoning budgets apply to one model; an unknown syntax is rejected."""
    file = tmp_path / "service.yaml"
    file.write_text(
        "models: [{name: a, path: /a, chat: {system_prompt: Be brief., tool_syntax: llama3, reasoning_budget_low: 9}}]"
    )
    (model,) = read_settings(Settings, [f"--config={file}"]).served_models()
    assert (model.chat.system_prompt, model.chat.tool_syntax) == ("Be brief.", "llama3")
    assert (model.chat.reasoning_budget_low, model.chat.reasoning_budget_medium) == (9, 4096)
    file.write_text("models: [{name: a, path: /a, chat: {tool_syntax: morse}}]")
    with pytest.raises(ConfigError, match=r"models\.0\.chat\.tool_syntax"):
        read_settings(Settings, [f"--config={file}"])


def test_models_share_the_memory_for_caches() -> None:
    """Each model takes an equal share with the models after it of what is left, unless its share is set."""
    flags = ['--models=[{"name": "a", "path": "/a"}, {"name": "b", "path": "/b", "cache_share": 0.2}]', "--model=c=/c"]
    shares = {model.name: model.cache_share for model in read_settings(Settings, flags).served_models()}
    assert shares == {"c": 1 / 3, "a": 1 / 2, "b": 0.2}


def test_quantization_does_not_apply_to_the_bundled_encoder() -> None:
    """Settings for all models apply to those that generate; a configured encoder would be rejected with this one."""
    chat, encoder = read_settings(Settings, ["--engine.quantization=int8"]).served_models()
    assert chat.engine is not None
    assert encoder.engine is not None
    assert (chat.engine.quantization, encoder.engine.quantization) == ("int8", None)


def test_model_flag_can_be_repeated() -> None:
    """The flag is NAME=PATH, once per model."""
    models = read_settings(Settings, ["--model", "a=/a", "--model", "b=/b"]).served_models()
    assert [(model.name, model.path) for model in models] == [("a", "/a"), ("b", "/b")]


def test_otel_endpoint_variable_has_the_lowest_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """OTEL_EXPORTER_OTLP_ENDPOINT is used if no other source sets a collector."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://standard:4317")
    assert read_settings(Settings, []).otlp_endpoint == "http://standard:4317"
    assert read_settings(Settings, ["--otlp-endpoint=own:4317"]).otlp_endpoint == "own:4317"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--port=70000"], "port: "),
        (["--port=x"], "port: "),
        (["--drain-delay-s=-1"], "drain_delay_s: "),
        (["--drain-delay-s=inf"], "drain_delay_s: "),
        (["--keepalive-time-s=inf"], "keepalive_time_s: "),
        (["--log-level=loud"], "log_level: "),
        (["--dtype=int3"], "dtype: "),
        (["--engine.block-size=0"], "engine.block_size: Input should be greater than or equal to 1"),
        (["--engine.quantization=int3"], "engine.quantization: "),
        (["--model=x"], "model"),
        (["--models=[{}]"], "models.0.name: "),
        (["--models=[{"], "models"),
        (["--model=a=/a", '--models=[{"name": "a", "path": "/b"}]'], "models: duplicate name 'a'"),
        (
            ["--model=a=/a", "--max-loaded-models=1", '--models=[{"name": "b", "path": "/b", "pinned": true}]'],
            "max_loaded_models: must be at least 2: 1 of 2 models are pinned",
        ),
        (
            ["--model=a=/a", "--idle-unload-s=60", "--engine.worker=thread"],
            "models: a: loading on demand needs engine.worker process, which can release memory",
        ),
        (["--nonsense=1"], "--nonsense"),
        (["--engine=1"], "engine: must be a mapping of settings by name"),
    ],
)
def test_error_about_an_invalid_value_is_one_line_with_its_name(flags: list[str], words: str) -> None:
    """The line says what to change."""
    with pytest.raises(ConfigError) as caught:
        read_settings(Settings, flags)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


ENDPOINT = "{name: x, entities: [{name: main, model: a, traffic_percentage: 100}]}"
ENDPOINTS = """
models: [{name: a, path: /a, version: 2024-05}, {name: b, path: /b}]
endpoints: [{name: x, entities: [
  {name: main, model: a, traffic_percentage: 90}, {name: trial, model: b, traffic_percentage: 10}]}]
endpoints_file: state/endpoints.json
"""


def test_endpoints_of_a_file(tmp_path: Path) -> None:
    """Endpoints have names, models and percentages; a model's version is "1" by default."""
    file = tmp_path / "service.yaml"
    file.write_text(ENDPOINTS)
    settings = read_settings(Settings, [f"--config={file}"])
    assert [model.version for model in settings.served_models()] == ["2024-05", "1"]
    (endpoint,) = settings.endpoints
    assert [(each.name, each.model, each.traffic_percentage) for each in endpoint.entities] == [
        ("main", "a", 90),
        ("trial", "b", 10),
    ]
    assert settings.endpoints_file == Path("state/endpoints.json")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("90", "80", "endpoints.0.entities: traffic_percentage must add up to 100, not 90"),
        ("90", "101", "endpoints.0.entities.0.traffic_percentage: "),
        ("trial", "main", "endpoints.0.entities: duplicate name 'main'"),
        ("name: x", "name: x, slo_token_seconds: 0", "endpoints.0.slo_token_seconds: "),
        ("trial", "no spaces", "endpoints.0.entities.1.name: "),
        ("model: b", "model: c", "endpoints.0.entities: no model named 'c' is served"),
        ("name: x", "name: a", "endpoints.0.name: 'a' is the name of a model"),
        ("name: x", "name: x/y", "endpoints.0.name: "),
        ("name: x", "name: .", "endpoints.0.name: must not be . or .., which a URL's path can't contain"),
        ("trial", "..", "endpoints.0.entities.1.name: must not be . or .., which a URL's path can't contain"),
        ("name: b, path", "name: .., path", "models.1.name: must not be . or .., which a URL's path can't contain"),
        ("endpoints: [", f"endpoints: [{ENDPOINT}, ", "endpoints: duplicate name 'x'"),
        ("traffic_percentage: 10}", "traffic_percentage: 10, weight: 1}", "endpoints.0.entities.1.weight: "),
        ("version: 2024-05", "cache_share: 0", "models.0.cache_share: "),
        ("version: 2024-05", "version: ''", "models.0.version: "),
    ],
)
def test_error_about_an_invalid_endpoint_has_its_position(old: str, new: str, words: str, tmp_path: Path) -> None:
    """A mistake in an endpoint of the settings fails the start, with its position."""
    file = tmp_path / "service.yaml"
    file.write_text(ENDPOINTS.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        read_settings(Settings, [f"--config={file}"])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot: 1", "prot"),
        ("port: [", "service.yaml"),
        ("- port", "service.yaml: must be a mapping of settings by name"),
        ("models: [{name: a, path: b, engine: {blok_size: 1}}]", "models.0.engine.blok_size"),
        ("quota: {redis_url: 'http://h'}", "quota.redis_url: "),
        ("quota: {redis_url: 'redis://h:x'}", "quota.redis_url: Port could not be cast to integer value as 'x'"),
        ("quota: {redis_url: 'redis://h?foo=1'}", "quota.redis_url: unexpected keyword argument 'foo'"),
        ("quota: {on_store_loss: guess}", "quota.on_store_loss: "),
        ("stored_responses: {postgres_url: 'http://h'}", "stored_responses.postgres_url: "),
        ("stored_responses: {postgres_url: 'postgresql://h', file: f}", "file and postgres_url exclude each other"),
        ("stored_responses: {postgres_password_file: f}", "postgres_password_file needs postgres_url"),
        (
            "quota: {limits_by_model: {a: {max_n: 0}}}",
            "quota.limits_by_model.a.max_n: Input should be greater than",
        ),
        ("quota: {limits_by_model: {a: {requests: 1}}}", "quota.limits_by_model.a.requests: unknown setting"),
    ],
)
def test_error_about_an_invalid_file_is_one_line_with_its_name(text: str, words: str, tmp_path: Path) -> None:
    """Mistakes in a file, including unknown names, are reported like those in flags."""
    file = tmp_path / "service.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_settings(Settings, [f"--config={file}"])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "sluice.example.test"])  # noqa: S104  not listened on
def test_address_reachable_by_others_needs_authentication(host: str, tmp_path: Path) -> None:
    """Without keys, tokens or `allow_anonymous`, an address that others can reach is rejected; loopback is accepted."""
    with pytest.raises(ValidationError, match=r"allow_anonymous: true"):
        Settings(host=host)
    ways: list[dict[str, Any]] = [
        {"keys_file": tmp_path / "keys.yaml"},
        {"jwks": "x", "issuer": "i", "audience": "a"},
        {"allow_anonymous": True},
    ]
    for auth in ways:
        assert Settings(host=host, auth=AuthSettings(**auth)).host == host
    assert not Settings(host="127.0.0.1").auth.is_on


def test_all_problems_of_several_settings_together_are_reported(tmp_path: Path) -> None:
    """Each violated rule has one line in the error."""
    file = tmp_path / "a.yaml"
    file.write_text(
        "host: 0.0.0.0\nmodels: [{name: a, path: /a}, {name: a, path: /b}]\n"
        "endpoints: [{name: e, entities: [{name: x, model: b, traffic_percentage: 100}]}]"
    )
    with pytest.raises(ConfigError) as caught:
        read_settings(Settings, [f"--config={file}"])
    assert [line.partition(": ")[0] for line in caught.value.problems] == ["host", "models", "endpoints.0.entities"]


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_ipv6_host_in_brackets_is_accepted(host: str) -> None:
    """Brackets as in a URL are accepted, and removed from the setting."""
    assert read_settings(Settings, ["--host", host]).host == "::1"
