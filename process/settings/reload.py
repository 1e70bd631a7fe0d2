"""Reload settings while a process runs: on SIGHUP, and when the file named by `config` changes.

Invalid settings change nothing and are logged. A changed setting that is not declared as applied on reload is logged,
and takes effect at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from process.errors import ConfigError
from process.files.file_state import FileState, file_state
from process.settings.process_settings import ProcessSettings
from process.settings.setting import RELOAD

_POLL_S: Final = 1.0  # time between two looks at the file

_log = logging.getLogger(__name__)

ReloadedSettings = TypeVar("ReloadedSettings", bound=ProcessSettings)


class Reload(Generic[ReloadedSettings]):
    """Watches for SIGHUP and changes of the file from the start on; `follow` applies them."""

    def __init__(self, settings: ReloadedSettings, read: Callable[[], ReloadedSettings]) -> None:
        """Watch, on the running loop. `settings` are current; `read` reads them again, or raises ConfigError."""
        self._current = settings
        self._read = read
        self._requested = asyncio.Event()
        self._seen = self._file_state()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._requested.set)

    async def follow(self, apply: Callable[[ReloadedSettings], None]) -> None:
        """Pass new settings to `apply` until cancelled: it applies those declared so, or raises ConfigError."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._requested.wait(), _POLL_S)
            seen = self._file_state()
            if self._requested.is_set() or seen != self._seen:
                self._seen = seen
                self._requested.clear()
                try:
                    self._reload(apply)
                except Exception:  # noqa: BLE001  the next request is handled all the same
                    _log.exception("reloading the settings failed")

    def _reload(self, apply: Callable[[ReloadedSettings], None]) -> None:
        """Read the settings again and apply them. Errors are logged, and the previous settings stay."""
        try:
            new = self._read()
            apply(new)
        except ConfigError as error:
            _log.error("the settings are invalid; the previous ones stay in use: %s", error)
            return
        changed = [name for name in type(new).model_fields if getattr(new, name) != getattr(self._current, name)]
        waiting = [name for name in changed if not is_applied_on_reload(type(new), name)]
        kept = {name: getattr(self._current, name) for name in waiting}
        self._current = new.model_copy(update=kept)
        root, level = logging.getLogger(), logging.getLevelNamesMapping()[new.log_level.upper()]
        root.setLevel(min(root.level, level))  # a level that would hide the following lines is set after them
        _log.info("settings were reloaded", extra={"fields": {"changed": sorted(set(changed) - set(waiting))}})
        if waiting:
            _log.warning("changed settings take effect at the next start", extra={"fields": {"waiting": waiting}})
        root.setLevel(level)

    def _file_state(self) -> FileState:
        path: Path | None = self._current.config
        return file_state(path) if path is not None else None


def is_applied_on_reload(kind: type[ProcessSettings], name: str) -> bool:
    """Return True if a running process applies a change of the setting."""
    extra = kind.model_fields[name].json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(RELOAD))
