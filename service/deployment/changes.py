"""Changes that clients made to the configured models, and their text form for replicas.

The text is JSON without default values, so that an older replica can read what a newer one writes unless a new feature
is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from process.settings.quantities import Count
from service.registry.errors import AdapterExists, ModelExists
from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import Dtype, ModelSettings
from service.settings.names import ModelName, PlainName

_Text = Annotated[str, Field(max_length=4096)]


class LoadedModel(BaseModel):
    """A model that a client loaded, as requested. None stands for the service's setting of that name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ModelName
    path: _Text
    version: str = "1"
    dtype: Dtype | None = None
    quantization: str | None = None
    backend: str | None = None
    device: str | None = None
    max_model_len: Count | None = None
    cache_share: float | None = None

    def to_settings(self, engine: EngineSettings) -> ModelSettings:
        """Return the model's settings; `engine` has the service's. Raise ValueError for an invalid combination."""
        values = {name: getattr(self, name) for name in ("max_model_len", "quantization", "backend")}
        changes: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        return ModelSettings(
            name=self.name,
            path=self.path,
            version=self.version,
            dtype=self.dtype,
            device=self.device,
            cache_share=self.cache_share,
            engine=replace(engine, **changes) if changes else None,
        )


class LoadedAdapter(BaseModel):
    """An adapter that a client loaded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: ModelName
    name: PlainName
    path: _Text


class Changes(BaseModel):
    """All changes. Each method returns the changes with one more applied."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[LoadedModel, ...] = ()
    adapters: tuple[LoadedAdapter, ...] = ()
    unloaded: frozenset[str] = frozenset()  # models of the settings, and their adapters as MODEL:NAME
    asleep: frozenset[str] = frozenset()

    @classmethod
    def of_text(cls, text: str) -> Changes:
        """Return the changes of a text. Raise ValueError."""
        return cls.model_validate_json(text)

    def to_text(self) -> str:
        """Return the text in which they are stored."""
        return self.model_dump_json(exclude_defaults=True)

    def wanted_models(self, configured: Iterable[str]) -> Mapping[str, LoadedModel | None]:
        """The models to be served, by name; the value is None for a model of the settings."""
        kept = {name: None for name in configured if name not in self.unloaded}
        return kept | {each.name: each for each in self.models}

    def with_model(self, model: LoadedModel, configured: Iterable[str] = ()) -> Changes:
        """Add a model. Raise ModelExists for a wanted name, even if it is not loaded yet."""
        if model.name in self.wanted_models(configured):
            raise ModelExists(model.name)
        return self.model_copy(update={"models": (*self.models, model), "asleep": self.asleep - {model.name}})

    def with_own_model(self, name: str, configured: Iterable[str]) -> Changes:
        """Restore an unloaded model of the settings, with its adapters. Raise ModelExists if it isn't unloaded."""
        if name in self.wanted_models(configured):
            raise ModelExists(name)
        kept = {each for each in self.unloaded if name not in {each, each.rpartition(":")[0]}}
        return self.model_copy(update={"unloaded": frozenset(kept)})

    def without_model(self, name: str, configured: Iterable[str]) -> Changes:
        """Remove a model and its adapters."""
        of_settings = {each for each in configured if each == name}
        return self.model_copy(
            update={
                "models": tuple(each for each in self.models if each.name != name),
                "adapters": tuple(each for each in self.adapters if each.model != name),
                "unloaded": self.unloaded | of_settings,
                "asleep": self.asleep - {name},
            }
        )

    def with_sleep(self, name: str, *, is_asleep: bool) -> Changes:
        """Put a model to sleep or wake it."""
        return self.model_copy(update={"asleep": self.asleep | {name} if is_asleep else self.asleep - {name}})

    def with_adapter(self, adapter: LoadedAdapter) -> Changes:
        """Add an adapter. Raise AdapterExists for a wanted name, even if it is not loaded yet."""
        if any((each.model, each.name) == (adapter.model, adapter.name) for each in self.adapters):
            raise AdapterExists(adapter.name)
        return self.model_copy(update={"adapters": (*self.adapters, adapter)})

    def with_own_adapter(self, model: str, name: str) -> Changes:
        """Restore an unloaded adapter of the settings. Raise AdapterExists if it isn't unloaded."""
        full = f"{model}:{name}"
        if full not in self.unloaded or any((each.model, each.name) == (model, name) for each in self.adapters):
            raise AdapterExists(name)
        return self.model_copy(update={"unloaded": self.unloaded - {full}})

    def without_adapter(self, model: str, name: str, configured: Iterable[str]) -> Changes:
        """Remove an adapter. `configured` are the adapters of the settings, as MODEL:NAME."""
        full = f"{model}:{name}"
        return self.model_copy(
            update={
                "adapters": tuple(each for each in self.adapters if (each.model, each.name) != (model, name)),
                "unloaded": self.unloaded | {each for each in configured if each == full},
            }
        )


class ChangesJson:
    """Changes as JSON. A `Format`; a field that this version doesn't know makes the text unreadable."""

    def empty(self) -> Changes:
        """No changes."""
        return Changes()

    def parse(self, text: str) -> Changes:
        """Return the changes of a text. Raise ValueError."""
        return Changes.of_text(text)

    def dump(self, document: Changes) -> str:
        """Return the text of changes."""
        return document.to_text()
