"""The BFQ rows of tests/data/truth/bfq-KERNEL.json on the model: 100 us, merges, weight raising and all.

A row counts as its ratio to the kernel's own row under none, so the CPU of the VM matters little. Most of these rows
are chaotic (injection), so the model runs each with several seeds and its median counts. Differs: the weight rows ran
one after another in one boot, so the kernel came to them with a peak rate, a hw_tag and groups that the model has not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from blktwin.fio.ddir import READ, WRITE
from blktwin.fio.results import RunResult
from blktwin.lab.bfq_runs import Bench, Compared, Load, Weights, ms, plan_of, prepare_weighted, spread
from blktwin.lab.run import collect, drive
from blktwin.lab.schedule import Schedule
from blktwin.lab.truth import CGROUPS, KERNELS, TRUTH_DIR
from blktwin.lab.world import World

NONE_ROWS = {"_cg": "none._cg.8w", "_cg_a": "none._cg_a.8w", "_cg_c1_c2": "none._cg_c1_c2.8w", "root": "none.root.1w"}
DEFAULT_NONE = "none._cg_a.8w"
LATE_US = ms(210)
"""When all jobs but the first start. The scripts say 20 ms apart, but fio looks at its delays 200 ms after it has made
the first job (two sleeps of 100 ms), makes the others one after the other and starts them together."""
STEP_US = 50
START_JITTER_US = 2000
"""What a seed changes: null_blk in that VM takes its 100 us to the ns."""
LATENCY_US = 100
DEPTH = 64
SEEDS = tuple(range(1, 21))
IODEPTH = 16
MEDIAN_LIMIT = 0.10
WORST_LIMIT = 0.25
CHAOTIC = 1.2
NAMES = ("a", "b")


@dataclass(slots=True)
class BootRow:
    """One boot script's step: its load generators by row of the file, BFQ's settings, the none row to compare with."""

    names: list[str]
    """Rows of the file that come out of this step, one for each fio process."""
    loads: list[list[Load]]
    tunables: list[tuple[str, str]]
    weights: Weights
    none: str = DEFAULT_NONE
    scheduler: str = "bfq"


@dataclass(slots=True)
class RatioRow(Compared):
    """One row: IOPS over the none row's, measured, and modelled with each seed."""

    kernel: str
    name: str
    truth: float
    model: list[float]

    @property
    def is_reached(self) -> bool:
        """Say whether some seed does what the kernel did, or more, and another the same or less."""
        return min(self.model) <= self.truth <= max(self.model)

    @property
    def is_within(self) -> bool:
        """Say whether the row is within the limit of a single row."""
        return abs(self.error) <= WORST_LIMIT

    @property
    def is_chaotic(self) -> bool:
        """Say whether the seeds disagree by so much that one run of a kernel says little."""
        return max(self.model) > CHAOTIC * min(self.model)


def ramp(cgroup: str, count: int, runtime_ms: int, rw: str, iodepth: int = 0) -> list[Load]:
    """Return the jobs of one fio process, started when fio 3.33 starts them."""
    return [Load(cgroup, LATE_US + at * STEP_US if at else 0, ms(runtime_ms), rw, iodepth) for at in range(count)]


def step_of(name: str) -> BootRow:
    """Return the step that a row of the file came from; it may give a second row."""
    head, *middle, tail = name.split(".")
    low_latency = 0 if head.startswith("ll0") else 1
    tunables = [("iosched.low_latency", str(low_latency))]
    kind = head.removeprefix("ll0")
    if kind == "mix":
        loads = [ramp("/", 1, 600, "randwrite"), ramp("/a", 2, 1500, "randwrite")]
        return BootRow([f"{head}.root", f"{head}.a"], loads, tunables, {})
    if ":" in kind:
        word, _, second = kind.partition(":")
        count, iodepth = (1, IODEPTH) if word.startswith("aio") else (4, 0)
        weights = {"/a": int(word.strip("awio")), "/b": int(second)}
        loads = [ramp(f"/{group}", count, 1500, "randread", iodepth) for group in NAMES]
        return BootRow([f"{head}.{group}" for group in NAMES], loads, tunables, weights)
    place = "_cg_a" if middle[-1] == "a" else middle[-1]
    scheduler = head if head in ("none", "mq-deadline") else "bfq"
    if middle[0] == "idle0":
        tunables.append(("iosched.slice_idle", "0"))
    count, runtime_ms = (1, 500) if tail.startswith("1") else (8, 1000)
    rw = "randread" if tail.endswith("r") else "randwrite"
    loads = [ramp(CGROUPS[place], count, runtime_ms, rw)]
    return BootRow([name], loads, tunables, {}, NONE_ROWS[place], scheduler)


def iops_by_row(step: BootRow, result: RunResult) -> dict[str, float]:
    """Return fio's IOPS summed over each process of a step, as the truth's are."""
    totals = {}
    at = 0
    for name, loads in zip(step.names, step.loads, strict=True):
        total = 0.0
        for job in result.jobs[at : at + len(loads)]:
            for ddir in (READ, WRITE):
                runtime_ms = job.stat.runtime_ms(ddir)
                total += int(job.stat.directions[ddir].total_ios) * 1000 / runtime_ms if runtime_ms else 0.0
        totals[name] = total
        at += len(loads)
    return totals


def run_step(job: tuple[str, str, int]) -> dict[str, float]:
    """Return IOPS by row of a (kernel, row, seed); seed 0 is without jitter."""
    step, world, schedule = prepare_step(job)
    return iops_by_row(step, collect(world, schedule, drive(world, schedule)))


def prepare_step(job: tuple[str, str, int]) -> tuple[BootRow, World, Schedule]:
    """Build a (kernel, row, seed)."""
    kernel, name, seed = job
    step = step_of(name)
    bench = Bench(kernel, LATENCY_US, DEPTH, step.scheduler, step.tunables, step.weights)
    loads = [load for group in step.loads for load in group]
    plan = plan_of(loads, seed, START_JITTER_US if seed else 0)
    return step, *prepare_weighted(plan, bench.stack(seed), bench.weights)


def read_rows(kernel: str, folder: Path = TRUTH_DIR) -> dict[str, float]:
    """Return the IOPS of every row of a kernel's file."""
    rows = json.loads((folder / f"bfq-{kernel}.json").read_text())["rows"]
    return {name: row["iops"] for name, row in rows.items()}


def bfq_names(rows: dict[str, float]) -> list[str]:
    """Return the rows that ran under BFQ."""
    return [name for name in rows if name.split(".")[0] not in ("none", "mq-deadline")]


def compare(
    kernels: tuple[str, ...] = KERNELS,
    folder: Path = TRUTH_DIR,
    *,
    seeds: tuple[int, ...] = SEEDS,
    workers: int = 1,
) -> list[RatioRow]:
    """Return every BFQ row of the kernels, in the files' order."""
    truths = {kernel: read_rows(kernel, folder) for kernel in kernels}
    jobs: list[tuple[str, str, int]] = []
    for kernel, rows in truths.items():
        jobs += [(kernel, none, 0) for none in NONE_ROWS.values()]
        firsts = [name for name in bfq_names(rows) if step_of(name).names[0] == name]
        jobs += [(kernel, name, seed) for name in firsts for seed in seeds]
    model: dict[tuple[str, str], list[float]] = {}
    for (kernel, _, _), result in zip(jobs, spread(run_step, jobs, workers), strict=True):
        for name, iops in result.items():
            model.setdefault((kernel, name), []).append(iops)
    outcomes = []
    for kernel, rows in truths.items():
        for name in bfq_names(rows):
            none = step_of(name).none
            base = model[kernel, none][0]
            ratios = [iops / base for iops in model[kernel, name]]
            outcomes.append(RatioRow(kernel, name, rows[name] / rows[none], ratios))
    return outcomes
