"""Contestants take turns, round after round, so that a busy machine is busy for all of them; medians count."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

from benchmarks.product import Sample
from benchmarks.real_fio import LeftOut

PROBE_MS = 50


@dataclass(slots=True)
class Contestant:
    """One thing to measure: run takes a run time in ms (simulated for models, real for fio)."""

    run: Callable[[int], Sample]
    cpu_s: float = 1.0
    """How much CPU time a round should take; 0: runtime_ms is right as it is."""
    runtime_ms: int = PROBE_MS
    samples: list[Sample] = field(default_factory=list)
    left_out: str = ""

    def calibrate(self) -> None:
        """Warm up, and choose the run time."""
        if self.cpu_s == 0:
            return
        self.run(PROBE_MS)
        spent = self.run(PROBE_MS).cpu_s
        self.runtime_ms = max(PROBE_MS, round(PROBE_MS * self.cpu_s / max(spent, 1e-4)))

    def rate(self) -> float | None:
        """Return the median of I/Os per CPU second, None if it was left out."""
        return median(sample.rate for sample in self.samples) if self.samples else None


def race(contestants: Mapping[str, Contestant], rounds: int) -> None:
    """Run all in turn; one that cannot run here is left out with its reason."""
    for contestant in contestants.values():
        attempt(contestant, contestant.calibrate)
    for number in range(1, rounds + 1):
        if sys.stderr.isatty():
            print(f"round {number} of {rounds}", end="\r", file=sys.stderr, flush=True)
        for contestant in contestants.values():
            attempt(contestant, lambda who=contestant: who.samples.append(who.run(who.runtime_ms)))  # type: ignore[misc]


def attempt(contestant: Contestant, step: Callable[[], None]) -> None:
    """Do one step unless the contestant is out."""
    if contestant.left_out:
        return
    try:
        step()
    except LeftOut as reason:
        contestant.left_out = str(reason)
        contestant.samples.clear()


def ratio(ours: Contestant, peer: Contestant) -> float | None:
    """Return the median over the rounds of our rate by the peer's rate in the same round."""
    pairs = list(zip(ours.samples, peer.samples, strict=False))
    return median(mine.rate / theirs.rate for mine, theirs in pairs) if pairs else None
