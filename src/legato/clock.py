"""Named spans of host time for one turn: what took how long. Not a profiler, and not the frame clock of audio time.

A span that runs work on an accelerator measures its launch unless the caller synchronises inside the span.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Measures spans one after the other, each name once.

    now: a clock in nanoseconds (tests hand in their own). Not thread-safe: one stopwatch a turn.
    """

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now = now
        self._started = now()
        self._running: str | None = None
        self._ms: dict[str, float] = {}

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Time the body of a with-statement as `name`; a body that raises leaves no figure behind."""
        assert self._running is None, f"span {name!r} opened inside span {self._running!r}"
        assert name not in self._ms, f"span {name!r} was already measured"
        self._running = name
        begun = self._now()
        try:
            yield
            self._ms[name] = (self._now() - begun) / 1e6
        finally:
            self._running = None

    @property
    def ms(self) -> dict[str, float]:
        """Milliseconds by span name, in the order in which the spans ended; a copy."""
        return dict(self._ms)

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the stopwatch was made, gaps between spans included."""
        return (self._now() - self._started) / 1e6
