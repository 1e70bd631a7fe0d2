"""The models of the settings, without those that clients have unloaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from service.deployment.changes import Changes, LoadedAdapter, LoadedModel
from service.registry.models import adapted_name
from service.settings.model_settings import ModelSettings


class ConfiguredModels:
    """Those of the settings, in their order."""

    def __init__(self, models: Sequence[ModelSettings]) -> None:
        self._models = {model.name: model for model in models}

    @property
    def names(self) -> Sequence[str]:
        """Unloaded or not."""
        return [*self._models]

    def wanted(self, changes: Changes) -> Sequence[ModelSettings]:
        """The models that are still served as the settings have them, with such of their adapters as are."""
        wanted = changes.wanted_models(self.names)
        return [
            model.model_copy(
                update={
                    "adapters": {
                        adapter: path
                        for adapter, path in model.adapters.items()
                        if adapted_name(name, adapter) not in changes.unloaded
                    }
                }
            )
            for name, model in self._models.items()
            if wanted.get(name, "") is None
        ]

    def adapters(self, changes: Changes) -> Mapping[str, Path]:
        """The adapters of the settings that those models have or had, as MODEL:NAME."""
        return {
            adapted_name(model.name, adapter): Path(path)
            for model in self.wanted(changes)
            for adapter, path in self._models[model.name].adapters.items()
        }

    def unloaded(self, changes: Changes) -> Collection[str]:
        """The names of the models that callers have unloaded."""
        return {*self._models} & changes.unloaded

    def gone_model(self, entry: LoadedModel, changes: Changes) -> ModelSettings | None:
        """The model of the settings that was unloaded, if `entry` is it: of its path, and with nothing of its own."""
        model = self._models.get(entry.name)
        is_it = model is not None and entry == LoadedModel(name=model.name, path=model.path)
        return model if is_it and entry.name in changes.unloaded else None

    def gone_adapter(self, entry: LoadedAdapter, changes: Changes) -> Path | None:
        """The folder of the adapter of the settings that was unloaded, if `entry` is it."""
        full = adapted_name(entry.model, entry.name)
        folder = self.adapters(changes).get(full)
        return folder if folder == Path(entry.path) and full in changes.unloaded else None
