"""Reload settings while a process runs: on SIGHUP, and when the file named by `config` changes.

What can't be used changes nothing, and is one line in the log. Of the rest, what a process can't change as it runs is
named there, too, and waits for its next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, Generic

from process.settings.errors import ConfigError
from process.settings.process_settings import AnySettings

_LOOK_S: Final = 1.0  # how often the file is looked at

_log = logging.getLogger(__name__)


class Reload(Generic[AnySettings]):
    """The wish to read a process's settings again, from the first moment on; `follow` fulfils it."""

    def __init__(self, settings: AnySettings, read: Callable[[], AnySettings]) -> None:
        """Listen, on the running loop. `settings` are those of now; `read` reads them again, or raises ConfigError."""
        self._current = settings
        self._read = read
        self._asked = asyncio.Event()
        self._seen = self._state()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._asked.set)

    async def follow(self, apply: Callable[[AnySettings], None], changeable: Collection[str]) -> None:
        """Hand new settings to `apply` until cancelled: it takes all of them or raises ConfigError.

        `changeable` names what of them it heeds, besides `log_level`.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), _LOOK_S)
            seen = self._state()
            if self._asked.is_set() or seen != self._seen:
                self._seen = seen
                self._asked.clear()
                try:
                    self._take(apply, {"log_level", *changeable})
                except Exception:  # noqa: BLE001  who asks next is heard all the same
                    _log.exception("the settings could not be read again")

    def _take(self, apply: Callable[[AnySettings], None], changeable: Collection[str]) -> None:
        try:
            new = self._read()
            apply(new)
        except ConfigError as error:
            _log.error("the settings can't be used; those before stay: %s", error)
            return
        changed = [name for name in type(new).model_fields if getattr(new, name) != getattr(self._current, name)]
        waiting = [name for name in changed if name not in changeable]
        kept = {name: getattr(self._current, name) for name in waiting}
        self._current = new.model_copy(update=kept)
        root, level = logging.getLogger(), logging.getLevelNamesMapping()[new.log_level.upper()]
        root.setLevel(min(root.level, level))  # a level that would hide what follows is set after it
        _log.info("settings were read again", extra={"fields": {"changed": sorted(set(changed) - set(waiting))}})
        if waiting:
            _log.warning("settings wait for the next start", extra={"fields": {"waiting": waiting}})
        root.setLevel(level)

    def _state(self) -> tuple[int, int, int, int] | None:
        path: Path | None = self._current.config
        try:
            found = path.stat() if path is not None else None
        except OSError:
            return None
        return None if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
