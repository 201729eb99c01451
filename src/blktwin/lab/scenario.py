"""`blktwin scenario FILE.toml`: every variant of a stack file under the same job and the same seeds, side by side.

scenario = Scenario(load_stack("android-loop.toml"), seeds=[1, 2, 3])
scenario.run()
print(render_text(scenario))
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from math import sqrt

from blktwin.errors import LoopViolation, UsageError
from blktwin.fio import jobfile
from blktwin.fio.hist import LatencyStat
from blktwin.fio.results import RunResult
from blktwin.lab.interrupt import Interrupt
from blktwin.lab.run import Progress, simulate
from blktwin.lab.runtime import apply_runtime
from blktwin.lab.stack_build import assemble
from blktwin.lab.stack_file import StackSource
from blktwin.lab.stack_said import StackFile
from blktwin.lab.stages import Stages, rows_of, share_of
from blktwin.units import MIB

PARTS = ("Q2G", "G2I", "I2D", "G2D", "D2W", "W2X", "X2Q'", "Q'2C'", "C'2C", "X2C")
"""What Q2C of a loop device consists of."""
FLOOR = 0.05
"""Differences below this mean nothing, however well they repeat: no cost in the model is known better."""
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t for 95% and 1, 2, 3, ... degrees of freedom."""


@dataclass(slots=True)
class Measure:
    """One run. times in ns; "" and 0 where there is nothing to tell."""

    figures: dict[str, float]
    """By metric, as [expect] names them."""
    device: str
    """Whose D2C it is: the topmost loop device, or the device that the jobs use."""
    shares: dict[str, float]
    """Percent of that device's Q2C, by stage."""


@dataclass(slots=True)
class Outcome:
    """One variant over all seeds."""

    said: StackFile
    measures: list[Measure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Jobs that ended in an error."""
    stopped: str = ""
    """What ended it before its end: a rule of the block layer that it broke."""

    def values(self, metric: str) -> list[float]:
        """Return a metric of every seed that has it."""
        return [one.figures[metric] for one in self.measures if metric in one.figures]

    def mean(self, metric: str) -> float | None:
        """Return a metric's mean over the seeds, None without a run."""
        values = self.values(metric)
        return sum(values) / len(values) if values else None

    def dominant(self) -> tuple[str, float]:
        """Return the stage in which most of the time passes, and its percent of Q2C on average."""
        totals: dict[str, float] = {}
        for one in self.measures:
            for stage, share in one.shares.items():
                totals[stage] = totals.get(stage, 0.0) + share / len(self.measures)
        return max(totals.items(), key=lambda item: item[1], default=("", 0.0))


@dataclass(slots=True)
class Comparison:
    """A metric against the first variant's: the ratio, and whether it is more than noise."""

    ratio: float
    is_significant: bool


class Scenario:
    """All variants of one file, or some; runtime: as --runtime has it, "" for the file's or the jobs' own."""

    def __init__(
        self, source: StackSource, *, seeds: list[int], names: list[str] | None = None, runtime: str = ""
    ) -> None:
        self.source = source
        self.seeds = seeds
        self.runtime = runtime
        # The default is all; a file without variants is one.
        chosen = names or [variant.name for variant in source.variants] or [""]
        self.outcomes = [Outcome(source.read(name)) for name in dict.fromkeys(chosen)]
        self.is_partial = False
        for outcome in self.outcomes:
            if not outcome.said.jobs:
                raise UsageError('has no job: job = "FILE.fio"', file=source.toml.file)

    def run(self, interrupt: Interrupt | None = None, progress: Progress | None = None) -> None:
        """Run every variant with every seed; after Ctrl-C what has ended by then stays, marked partial."""
        if interrupt is None:
            with Interrupt() as own:
                self.run(own, progress)
            return
        for outcome in self.outcomes:
            for seed in self.seeds:
                if not self.run_one(outcome, seed, interrupt, progress):
                    self.is_partial = True
                    return

    def run_one(self, outcome: Outcome, seed: int, interrupt: Interrupt, progress: Progress | None) -> bool:
        """Run one variant with one seed; False when Ctrl-C has stopped it."""
        if outcome.stopped:
            return True
        said = outcome.said
        plan = jobfile.load(said.jobs, [], env={**os.environ, **said.env})
        apply_runtime(plan, self.runtime or said.runtime)
        for job in plan.jobs:
            job.lat_percentiles = True
        stages = Stages()
        try:
            result = simulate(
                plan,
                assemble(said, seed=seed),
                progress=progress,
                allow_unbounded=False,
                interrupt=interrupt,
                stages=stages,
            )
        except LoopViolation as error:
            outcome.stopped = str(error)
            return True
        outcome.notes += [note for note in plan.notes if note not in outcome.notes]
        for done in result.jobs:
            text = f"{done.spec.name}: {done.stat.error_text} (errno {done.stat.error})"
            if done.stat.error and text not in outcome.errors:
                outcome.errors.append(text)
        if result.partial:
            return False
        outcome.measures.append(measure(result, stages))
        return True

    def sources(self) -> list[str]:
        """Return the files that the stack file names: jobs and what they include, cgroups."""
        paths: list[str] = []
        for outcome in self.outcomes:
            said = outcome.said
            paths += jobfile.load(said.jobs, [], env={**os.environ, **said.env}).files
            if said.cgroups is not None:
                paths.append(said.cgroups.file)
        return list(dict.fromkeys(paths))

    # -- what it says

    def against_first(self, outcome: Outcome, metric: str) -> Comparison | None:
        """Compare a variant with the first one; None when one of them has not run."""
        return compare(self.outcomes[0].values(metric), outcome.values(metric))

    def has_failed(self) -> bool:
        """Say whether a variant was stopped, or a job ended in an error."""
        return any(outcome.stopped or outcome.errors for outcome in self.outcomes)

    def notes(self) -> list[str]:
        """Return what the runs had to say beyond what each device is, with the variants that said it unless all did."""
        said: dict[str, list[str]] = {}
        for outcome in self.outcomes:
            for note in outcome.notes:
                if note.startswith("/dev/"):
                    continue
                said.setdefault(note, []).append(outcome.said.variant)
        every = len(self.outcomes)
        return [note if len(names) == every else f"{', '.join(names)}: {note}" for note, names in said.items()]

    def has_missed(self) -> bool:
        """Say whether a figure is farther from its [expect] than that allows."""
        return any(row.is_missed for outcome in self.outcomes for row in self.expected(outcome))

    def expected(self, outcome: Outcome) -> list[Expected]:
        """Return a variant's reported figures with ours."""
        said = outcome.said.expect.get(outcome.said.variant, {})
        within = said.get("within")
        rows = []
        for metric, value in said.items():
            if metric in ("within", "source") or not isinstance(value, int | float):
                continue
            ours = outcome.mean(metric)
            if metric == "ratio":
                ratio = self.against_first(outcome, "iops")
                ours = None if ratio is None else ratio.ratio
            limit = float(within) if isinstance(within, int | float) else None
            rows.append(Expected(metric, float(value), ours, limit, str(said.get("source", ""))))
        return rows


@dataclass(slots=True)
class Expected:
    """A reported figure beside ours (None: it has not run); within: percent allowed, None for any."""

    metric: str
    reported: float
    ours: float | None
    within: float | None
    source: str

    @property
    def deviation(self) -> float | None:
        """Ours against the reported one, in percent."""
        return None if self.ours is None else 100.0 * (self.ours / self.reported - 1.0)

    @property
    def is_missed(self) -> bool:
        """True when ours is farther away than allowed."""
        return self.within is not None and self.deviation is not None and abs(self.deviation) > self.within


def compare(first: list[float], other: list[float]) -> Comparison | None:
    """Compare two lists of values, one for each seed; with one seed only FLOOR tells noise from difference."""
    if not first or not other:
        return None
    mean_first, mean_other = sum(first) / len(first), sum(other) / len(other)
    if not mean_first:
        return None
    noise = FLOOR * mean_first
    freedom = len(first) + len(other) - 2
    if min(len(first), len(other)) > 1:
        spread = variance(first) / len(first) + variance(other) / len(other)
        noise = max(noise, T_95[min(freedom, len(T_95)) - 1] * sqrt(spread))
    return Comparison(mean_other / mean_first, abs(mean_other - mean_first) > noise)


def variance(values: list[float]) -> float:
    """Return the sample variance of two values or more."""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def measure(result: RunResult, stages: Stages) -> Measure:
    """Return one run's figures."""
    figures: dict[str, float] = {}
    iops = 0.0
    latency = LatencyStat()
    rates = [0.0, 0.0, 0.0]
    for ddir in range(3):
        lanes = [job.stat.directions[ddir] for job in result.jobs]
        runtime_ms = max((job.stat.runtime_ms(ddir) for job in result.jobs), default=0)
        for lane in lanes:
            latency.merge(lane.lat)
        if runtime_ms:
            iops += 1000.0 * sum(int(lane.total_ios) for lane in lanes) / runtime_ms
            rates[ddir] = 1000.0 * sum(int(lane.io_bytes) for lane in lanes) / runtime_ms / MIB
    figures["iops"] = iops
    figures["read-mib-s"], figures["write-mib-s"] = rates[0], rates[1]
    add_times(figures, "lat", latency)
    devices = stages.devices()
    tops = [path for path, device in devices.items() if device.is_loop] or list(devices)
    if not tops:
        return Measure(figures, "", {})
    device = devices[tops[0]]
    rows = rows_of(device, "total")
    add_times(figures, "d2c", rows.get("D2C", LatencyStat()))
    parts = PARTS if device.is_loop else ("Q2G", "G2I", "I2D", "G2D", "D2C")
    shares = {stage: share_of(rows, stage) or 0.0 for stage in parts if stage in rows}
    return Measure(figures, tops[0], shares)


def add_times(figures: dict[str, float], name: str, stat: LatencyStat) -> None:
    """Add mean, p50 and p99 (ns) of a latency that has samples."""
    if stat.count:
        figures[name] = stat.mean()
        p50, p99 = stat.percentiles([50.0, 99.0])
        figures[f"{name}-p50"], figures[f"{name}-p99"] = float(p50), float(p99)
