"""The BFQ mail's table: its own job on its box, in the root cgroup and in another, before and after the series.

Before, non-root is not a number but a spread: how much BFQ injects while it idles depends on the device's jitter, so
that cell is the median over seeds. The other three hardly move.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import median

from blktwin.fio import jobfile
from blktwin.fio.results import RunResult
from blktwin.lab.bfq_runs import spread
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack, find_rules
from blktwin.sim.devices.spec import parse_device
from blktwin.units import NSEC_PER_MSEC

JOB = "bfq-concurrent-sync-io.fio"
DEVICE = "/dev/nvme0n1=seed2-nvme"
BEFORE = "5.17"
AFTER = "5.17-series"
LAST_START_MS = 7000
WINDOW_MS = 5000
"""From the last start on. BFQ raises the weight of the job that has just started, which costs root 3% of these 5 s."""
SEEDS = tuple(range(1, 21))


@dataclass(slots=True)
class Cell:
    """One number of the mail (MiB/s): which kernel's rules, which cgroup, how near the model must come."""

    when: str
    rules: str
    cgroup: str
    mib_s: float
    limit: float
    has_spread: bool = False


CELLS = (
    Cell("before", BEFORE, "/", 550, 0.03),
    Cell("before", BEFORE, "/c1", 349, 0.05, has_spread=True),
    Cell("after", AFTER, "/", 550, 0.03),
    Cell("after", AFTER, "/c1", 550, 0.03),
)


@dataclass(slots=True)
class Answer:
    """What the model says of a cell, one MiB/s a seed."""

    cell: Cell
    model: list[float]

    @property
    def middle(self) -> float:
        """The median over the seeds."""
        return median(self.model)

    @property
    def error(self) -> float:
        """The error of the median, as a fraction."""
        return self.middle / self.cell.mib_s - 1

    @property
    def is_within(self) -> bool:
        """Say whether the median is near enough."""
        return abs(self.error) <= self.cell.limit

    def text(self) -> str:
        """Return the model's value, and its range if there is one."""
        if len(self.model) == 1:
            return f"{self.middle:.0f}"
        return f"{self.middle:.0f} ({min(self.model):.0f} to {max(self.model):.0f} over {len(self.model)} seeds)"


def job_path() -> str:
    """Return the job file: in the checkout, else the copy that is installed with the package."""
    path = Path("examples") / JOB
    return str(path) if path.exists() else str(resources.files("blktwin") / "examples" / JOB)


def run_seed(
    rules: str, cgroup: str, seed: int = 1, *, device: str = DEVICE, scheduler: str = "bfq", ramp_ms: int = 0
) -> RunResult:
    """Run the mail's job until its eight jobs have run together for a ramp, which does not count, and a window."""
    plan = jobfile.load([job_path()], [], env=os.environ)
    path = device.partition("=")[0]
    for job in plan.jobs:
        job.filenames = (path,)
        job.ramp_time_ns = ramp_ms * NSEC_PER_MSEC
        job.runtime_ns = (LAST_START_MS + WINDOW_MS) * NSEC_PER_MSEC
    stack = Stack([parse_device(device)], scheduler, rules=find_rules(rules), cgroup=cgroup, seed=seed)
    result = simulate(plan, stack)
    if result.partial:
        # A table has no use for a part of a run.
        raise KeyboardInterrupt
    return result


def throughput(result: RunResult) -> float:
    """Return the MiB/s written while all jobs ran."""
    window = result.blktwin["all_jobs"]
    assert isinstance(window, dict)
    rate = window["write_mib_s"]
    assert isinstance(rate, float)
    return rate


def measure(job: tuple[str, str, int], device: str = DEVICE, scheduler: str = "bfq", ramp_ms: int = 0) -> float:
    """Return the MiB/s of a (rules, cgroup, seed)."""
    rules, cgroup, seed = job
    return throughput(run_seed(rules, cgroup, seed, device=device, scheduler=scheduler, ramp_ms=ramp_ms))


def compare(seeds: tuple[int, ...] = SEEDS, *, workers: int = 1) -> list[Answer]:
    """Return the model's answer to each cell; the one with a spread takes all seeds, the others the first."""
    jobs = [(cell.rules, cell.cgroup, seed) for cell in CELLS for seed in (seeds if cell.has_spread else seeds[:1])]
    rates = dict(zip(jobs, spread(measure, jobs, workers), strict=True))
    return [
        Answer(
            cell, [rate for (rules, cgroup, _), rate in rates.items() if (rules, cgroup) == (cell.rules, cell.cgroup)]
        )
        for cell in CELLS
    ]


def table(answers: list[Answer]) -> list[str]:
    """Return the table as Markdown, readable as text."""
    lines = ["| | rules | cgroup | the mail | model | error |", "|---|---|---|--:|--:|--:|"]
    for answer in answers:
        cell = answer.cell
        miss = "" if answer.is_within else " **missed**"
        lines.append(
            f"| {cell.when} | {cell.rules} | {cell.cgroup} | {cell.mib_s:.0f} | {answer.text()} "
            f"| {answer.error:+.1%}{miss} |"
        )
    return lines
