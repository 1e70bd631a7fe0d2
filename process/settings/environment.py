"""The `SLUICE_…` variables: a process's own, and those of the rest of the product.

All processes of a machine may share one environment. Each checks every name with its own prefix; it accepts the names
of the other processes by their prefix, and those of the runner and of `sluice` by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from process.errors import ConfigError
from process.settings.names import mappings, paths, suggestion

FAMILY = "SLUICE_"
PREFIXES = ("SLUICE_SERVICE_", "SLUICE_GATEWAY_")
RUNNER = frozenset(
    {
        "SLUICE_HOST",
        "SLUICE_ENVOY_PORT",
        "SLUICE_ENVOY_ADMIN_PORT",
        "SLUICE_GATEWAY_PORT",
        "SLUICE_SERVICE_PORT",
        "SLUICE_SERVICE_METRICS_PORT",
        "SLUICE_MODEL",
        "SLUICE_MODELS",
        "SLUICE_CONFIG",
        "SLUICE_STATE_FOLDER",
        "SLUICE_ENDPOINTS_FILE",
        "SLUICE_STORE_RESPONSES",
        "SLUICE_KEYS_FILE",
        "SLUICE_ALLOW_ANONYMOUS",
        "SLUICE_OTLP_ENDPOINT",
        "SLUICE_DRAIN_TIME_S",
        "SLUICE_DRAIN_TIMEOUT_S",
        "SLUICE_TLS",
        "SLUICE_CERTS_FOLDER",
        "SLUICE_CORS_ORIGINS",
        "SLUICE_LOG_FORMAT",
        "SLUICE_CERT_FILE",
        "SLUICE_KEY_FILE",
        "SLUICE_CLIENT_CA_FILE",
    }
)
COMMAND = frozenset(  # of commands that call a server
    {"SLUICE_URL", "SLUICE_API_KEY", "SLUICE_CA_FILE", "SLUICE_CLIENT_CERT_FILE", "SLUICE_CLIENT_KEY_FILE"}
)
_DELIMITER = "__"


class Environment(EnvSettingsSource):
    """The settings in the environment. Reading raises ConfigError for unknown names and for invalid JSON."""

    def __call__(self) -> dict[str, Any]:
        if problems := [*_unknown(self.settings_cls, self.env_prefix)]:
            raise ConfigError(*problems)
        return super().__call__()

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:  # noqa: FBT001  the library's signature
        """Parse a variable's value. Raise ConfigError for invalid JSON."""
        try:
            return super().prepare_field_value(field_name, field, value, value_is_complex)
        except ValueError as error:
            raise ConfigError(f"{field_name}: invalid JSON in the environment: {error}") from error


def _unknown(kind: type[BaseSettings], prefix: str) -> Iterator[str]:
    """Yield a line for each variable with the family's prefix that no program of the product reads."""
    names = [prefix + _DELIMITER.join(path).upper() for path in paths(kind)]
    open_ended = tuple(f"{prefix}{_DELIMITER.join(path)}{_DELIMITER}".upper() for path in mappings(kind))
    others = tuple(other for other in PREFIXES if other != prefix)
    for name in sorted(os.environ):
        upper = name.upper()
        if not upper.startswith(FAMILY) or upper in RUNNER | COMMAND or upper.startswith((*others, *open_ended)):
            continue
        if upper not in names:
            rest = upper.removeprefix(FAMILY).partition("_")[2]
            known = [*names, *sorted(RUNNER | COMMAND), *(other + rest for other in others if rest)]
            start = prefix if upper.startswith(prefix) else FAMILY
            yield f"{name}: unknown variable{suggestion(upper, known, start)}"
