"""The clock of stored content: jumps of the wall clock, and when they are believed."""

from __future__ import annotations

from pathlib import Path

from service.storage.responses.age_clock import AgeClock
from service.storage.responses.port import ResponseRecord, StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore

MINUTE = 60_000_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MONTH_S = 30 * 86_400.0


class Time:
    """A wall clock and a clock of running time."""

    def __init__(self) -> None:
        self.wall, self.running = 1000 * DAY, 5 * HOUR

    def run(self, time_ns: int) -> None:
        """Let time pass for both."""
        self.wall += time_ns
        self.running += time_ns

    def clock(self, seen_ns: int | None = None, max_age_s: float = MONTH_S) -> AgeClock:
        return AgeClock(max_age_s, seen_ns, lambda: self.wall, lambda: self.running)


def test_clock_follows_the_wall_clock() -> None:
    """Running time and small corrections have their effect immediately."""
    time = Time()
    clock = time.clock()
    for change in (HOUR, 40 * DAY):
        time.run(change)
        assert clock() == time.wall
    time.wall += MINUTE
    assert clock() == time.wall


def test_jump_ahead_is_believed_after_a_day() -> None:
    """Until then the clock continues as before the jump; one that is corrected has had no effect."""
    time = Time()
    clock = time.clock()
    before = clock()
    time.wall += 1000 * DAY
    assert clock() == before
    time.run(23 * HOUR)
    assert clock() == before + 23 * HOUR
    time.wall -= 1000 * DAY
    assert clock() == time.wall
    time.wall += 1000 * DAY
    clock()
    time.run(DAY)
    assert clock() == time.wall


def test_jump_of_hours_while_running_is_believed_after_a_day() -> None:
    """No time has passed, as the clock of running time shows; between two processes it may have."""
    time = Time()
    clock = time.clock()
    before = clock()
    time.wall += 2 * HOUR
    assert clock() == before
    time.run(DAY)
    assert clock() == time.wall
    assert time.clock(seen_ns=time.wall - 2 * HOUR)() == time.wall


def test_clock_set_back_is_believed_immediately() -> None:
    """Content that is stored afterwards is not older than the clock allows."""
    time = Time()
    clock = time.clock()
    time.wall -= 100 * DAY
    assert clock() == time.wall


def test_short_ages_have_short_tolerances() -> None:
    """A jump of more than half the maximum age is not believed, and is after half of it."""
    time = Time()
    clock = time.clock(max_age_s=60)
    before = clock()
    time.wall += 31_000_000_000
    assert clock() == before
    time.run(30_000_000_000)
    assert clock() == time.wall


def test_store_that_starts_with_a_wrong_clock_keeps_its_content(tmp_path: Path) -> None:
    """A process whose clock is years ahead of the last one's deletes nothing, and finds what is stored."""
    time = Time()
    limits = StoreLimits(MONTH_S, 1000, 1000)

    def opened() -> SqliteStore:
        return SqliteStore(tmp_path / "responses.sqlite3", limits, lambda: time.wall, running_ns=lambda: time.running)

    store = opened()
    store.put(ResponseRecord("a", "r1", time.wall, "", b"q", b"r"))
    store.close()
    time.wall += 1000 * DAY
    store = opened()
    assert store.purge() == 0
    assert store.get("a", "r1") is not None
    time.run(DAY)
    assert store.purge() == 1
    store.close()
