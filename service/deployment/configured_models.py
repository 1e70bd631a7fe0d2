"""The models of the settings, without those that clients have unloaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from service.deployment.changes import Changes, LoadedAdapter, LoadedModel
from service.registry.models import adapted_name
from service.settings.model_settings import ModelSettings


class ConfiguredModels:
    """The models of the settings, in their order."""

    def __init__(self, models: Sequence[ModelSettings]) -> None:
        self._models = {model.name: model for model in models}

    @property
    def names(self) -> Sequence[str]:
        """The names of all models, unloaded or not."""
        return [*self._models]

    def wanted(self, changes: Changes) -> Sequence[ModelSettings]:
        """The models that clients have not unloaded or replaced, with the adapters that they have not unloaded."""
        wanted = changes.wanted_models(self.names)
        return [self.model(name, changes) for name in self._models if wanted.get(name, "") is None]

    def model(self, name: str, changes: Changes) -> ModelSettings:
        """Return the settings of a model, with the adapters that clients have not unloaded."""
        model = self._models[name]
        adapters = {
            adapter: path
            for adapter, path in model.adapters.items()
            if adapted_name(name, adapter) not in changes.unloaded
        }
        return model.model_copy(update={"adapters": adapters})

    def adapters(self, changes: Changes) -> Mapping[str, Path]:
        """The adapters of the settings of all wanted models, unloaded or not, by MODEL:NAME."""
        return {
            adapted_name(model.name, adapter): Path(path)
            for model in self.wanted(changes)
            for adapter, path in self._models[model.name].adapters.items()
        }

    def wanted_adapters(self, changes: Changes) -> Mapping[str, LoadedAdapter | None]:
        """All wanted adapters by MODEL:NAME; the value is None for an adapter of the settings."""
        configured = {full: None for full in self.adapters(changes) if full not in changes.unloaded}
        return configured | {adapted_name(each.model, each.name): each for each in changes.adapters}

    def unloaded(self, changes: Changes) -> Collection[str]:
        """The names of the models that clients have unloaded, and of all adapters that are therefore not served."""
        adapters = {adapted_name(name, each): name for name, model in self._models.items() for each in model.adapters}
        unloaded = {full for full, name in adapters.items() if {full, name} & changes.unloaded}
        return unloaded | ({*self._models} & changes.unloaded)

    def unloaded_model(self, entry: LoadedModel, changes: Changes) -> ModelSettings | None:
        """Return the settings of an unloaded model if `entry` requests its path and nothing else; otherwise None."""
        model = self._models.get(entry.name)
        is_same = model is not None and entry == LoadedModel(name=model.name, path=model.path)
        return model if is_same and entry.name in changes.unloaded else None

    def unloaded_adapter(self, entry: LoadedAdapter, changes: Changes) -> Path | None:
        """Return the folder of an unloaded adapter of the settings if `entry` requests it; otherwise None."""
        full = adapted_name(entry.model, entry.name)
        folder = self.adapters(changes).get(full)
        return folder if folder == Path(entry.path) and full in changes.unloaded else None
