"""The status line on a terminal: who runs, how far virtual time is, and what moves."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from blktwin.lab.schedule import Schedule
from blktwin.lab.world import World

INTERVAL_S = 0.2


class EtaLine:
    """A context in which update() redraws one line on stderr; mode is auto, always or never."""

    def __init__(self, mode: str) -> None:
        self.is_shown = mode == "always" or (mode == "auto" and sys.stderr.isatty())
        self.live: Live | None = None
        self.drawn_s = 0.0
        self.started_s = 0.0

    def __enter__(self) -> EtaLine:
        if self.is_shown:
            self.live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
            self.live.__enter__()
            self.started_s = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.__exit__(kind, error, trace)

    def update(self, world: World, schedule: Schedule) -> None:
        """Redraw the line if it is due."""
        now_s = time.monotonic()
        if self.live is None or now_s - self.drawn_s < INTERVAL_S:
            return
        self.drawn_s = now_s
        try:
            self.live.update(Text(status(world, schedule, now_s - self.started_s)), refresh=True)
        except OSError:
            # Nobody sees it: no reason to lose the run.
            self.is_shown = False
            self.live = None


def status(world: World, schedule: Schedule, wall_s: float) -> str:
    """Return the line."""
    virtual_s = int(world.machine.events.now_ns) / 1e9
    moved = sum(schedule.bytes_done()) / (1 << 20)
    rate = moved / virtual_s if virtual_s else 0.0
    speed = virtual_s / wall_s if wall_s else 0.0
    return (
        f"Jobs: {len(schedule.running)} (waiting {len(schedule.waiting)}) "
        f"[{virtual_s:.1f}s simulated][{rate:.0f}MiB/s][{speed:.1f}x real time]"
    )
