"""Create quotas from the settings, and the metrics of quotas, keys and endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Observation

from service.auth.authenticator import Authenticator
from service.observability.telemetry import ANONYMOUS, KEY, Telemetry
from service.quota.limit import Measure
from service.quota.memory_store import MemoryStore
from service.quota.quota import Quota
from service.quota.shared_store import SharedStore
from service.quota.store import Store
from service.settings.quota_settings import QuotaSettings

_MODEL = "gen_ai.request.model"


def open_quota(settings: QuotaSettings, telemetry: Telemetry) -> Quota:
    """Return the quota with the configured store, not started."""
    metrics = QuotaMetrics(telemetry)
    store: Store = MemoryStore()
    if settings.redis_url is not None:
        # Imported late: most services need no Redis.
        from service.quota.redis_store import RedisStore  # noqa: PLC0415

        remote = RedisStore(settings.redis_url, settings.redis_timeout_s)
        store = SharedStore(remote, store if settings.on_store_loss == "local" else None, metrics.on_store)
    return Quota(store, metrics, settings.limits_by_model, settings.expected_output_tokens)


def observe_keys(authenticator: Authenticator | None, telemetry: Telemetry) -> None:
    """Report whether the newest version of the keys can be used; always 0 without keys."""
    telemetry.meter.create_observable_gauge(
        "sluice.auth.keys_stale",
        [lambda _options: [Observation(int(authenticator is not None and authenticator.is_stale))]],
        description="1 while the newest keys can't be used, so that earlier ones are.",
    )


def observe_endpoints(num_unreadable: Callable[[], int], telemetry: Telemetry) -> None:
    """Report the number of stored endpoints that this replica can't read."""
    telemetry.meter.create_observable_gauge(
        "sluice.endpoints.unreadable",
        [lambda _options: [Observation(num_unreadable())]],
        description="Stored endpoints that a newer version wrote and this one can't read.",
    )


class QuotaMetrics:
    """Counts tokens and rejections by API key and model, and reports a lost store. A `QuotaObserver`."""

    def __init__(self, telemetry: Telemetry) -> None:
        meter = telemetry.meter
        self._tokens = meter.create_counter("sluice.quota.tokens", "{token}", "Tokens used by an API key.")
        self._rejections = meter.create_counter("sluice.quota.refusals", "{request}", "Requests rejected by a limit.")
        meter.create_observable_gauge(
            "sluice.quota.store_lost",
            [self._observe_store],
            description="1 while the store that replicas share is lost.",
        )
        self._keys = telemetry.keys
        self._is_lost = False

    def on_use(self, caller: str, model: str, num_input: int, num_output: int) -> None:
        """Count a request's tokens."""
        for kind, number in (("input", num_input), ("output", num_output)):
            if number:
                self._tokens.add(number, {KEY: self._key(caller), _MODEL: model, "gen_ai.token.type": kind})

    def on_rejection(self, caller: str, model: str, measure: Measure) -> None:
        """Count a rejection."""
        self._rejections.add(1, {KEY: self._key(caller), _MODEL: model, "sluice.limit": measure.value})

    def on_store(self, is_lost: bool) -> None:  # noqa: FBT001  the one value of a setter
        """Set whether the store is lost."""
        self._is_lost = is_lost

    def _key(self, caller: str) -> str:
        """Return a caller's label, of which there is a limited number."""
        return self._keys.label(caller or ANONYMOUS)

    def _observe_store(self, _options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(int(self._is_lost))]
