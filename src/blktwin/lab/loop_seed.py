"""The loop report's table: twelve fio jobs on a raw drive and through a loop device, by who executes the requests.

One set of parameters, `mikulas-server` and `mikulas-nvme`, has to give all ten cells.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from blktwin.drivers.loop.driver import LoopDriver
from blktwin.drivers.loop.reasons import REASON_EAGAIN_ASYNC, REASON_EAGAIN_SYNC
from blktwin.fio import jobfile
from blktwin.fio.results import RunResult
from blktwin.lab.bfq_runs import spread
from blktwin.lab.run import collect, drive, prepare
from blktwin.lab.stack_build import assemble
from blktwin.lab.stack_file import load_stack
from blktwin.lab.stack_said import StackFile
from blktwin.lab.world import World
from blktwin.units import NSEC_PER_MSEC

STACK = "loop-nowait.toml"
DRIVE = "/dev/nvme0n1"
RUN_MS = 300
RAMP_MS = 30
LIMIT = 0.10


@dataclass(slots=True)
class Cell:
    """One number of the report: MiB/s read, and as many written. stack: as the stack file's variants have it."""

    stack: str
    engine: str
    mib_s: float


REPORT: dict[str, tuple[float, float]] = {
    "raw": (399, 1246),
    "loop": (220, 276),
    "nowait": (302, 1055),
    "nowait mq4": (352, 1181),
    "per command": (300, 869),
}
"""psync, and libaio of depth 16."""
ENGINES = ("psync", "libaio")
NAMES = {
    "raw": "the drive itself",
    "loop": "loop, one worker (mainline)",
    "nowait": "loop, NOWAIT first",
    "nowait mq4": "loop, NOWAIT first, 4 hardware queues",
    "per command": "loop, a work item per command, 4 hardware queues",
}
CELLS = tuple(
    Cell(stack, engine, mib_s) for stack, row in REPORT.items() for engine, mib_s in zip(ENGINES, row, strict=True)
)


@dataclass(slots=True)
class Answer:
    """What the model says of a cell: MiB/s, merges on the loop device and the drive, CPUs busy on average."""

    cell: Cell
    read: float
    written: float
    merges: int
    requests: int
    """That reached the drive."""
    eagain: int
    inline: int
    cpus: float

    @property
    def iops(self) -> float:
        """Reads and writes a second."""
        return (self.read + self.written) * 256

    @property
    def cpu_us(self) -> float:
        """CPU time per I/O, all CPUs together."""
        return self.cpus * 1e6 / self.iops

    @property
    def error(self) -> float:
        """The error of what was read, as a fraction."""
        return self.read / self.cell.mib_s - 1

    @property
    def is_within(self) -> bool:
        """Say whether reads and writes are near enough, and equal."""
        return abs(self.error) <= LIMIT and abs(self.written / self.read - 1) <= 0.02


def example(name: str) -> str:
    """Return the path of an example: in the checkout, else the copy that is installed with the package."""
    path = Path("examples") / name
    return str(path) if path.exists() else str(resources.files("blktwin") / "examples" / name)


def run_variant(
    stack: str, variant: str, *, seed: int = 1, run_ms: int = RUN_MS, ramp_ms: int = RAMP_MS
) -> tuple[World, RunResult]:
    """Run a stack file's job on one of its variants, for a ramp, which does not count, and a run (0: the job's own)."""
    return run_said(load_stack(example(stack)).read(variant), seed=seed, run_ms=run_ms, ramp_ms=ramp_ms)


def run_said(
    said: StackFile, *, seed: int = 1, run_ms: int = RUN_MS, ramp_ms: int = RAMP_MS
) -> tuple[World, RunResult]:
    """Do what run_variant() does with a stack file that has been read."""
    plan = jobfile.load(said.jobs, [], env={**os.environ, **said.env})
    for job in plan.jobs:
        if run_ms:
            job.runtime_ns = run_ms * NSEC_PER_MSEC
            job.ramp_time_ns = ramp_ms * NSEC_PER_MSEC
    world, schedule = prepare(plan, assemble(said, seed=seed))
    if drive(world, schedule):
        # A table has no use for a part of a run.
        raise KeyboardInterrupt
    return world, collect(world, schedule, False)


def window(result: RunResult) -> tuple[float, float]:
    """Return the MiB/s read and written while all jobs ran."""
    rates = result.blktwin["all_jobs"]
    assert isinstance(rates, dict)
    return float(rates["read_mib_s"]), float(rates["write_mib_s"])


def loop_driver(world: World) -> LoopDriver | None:
    """Return the driver of the world's loop device, if it has one that is used."""
    for disk in world.disks.values():
        driver = disk.q.driver
        if isinstance(driver, LoopDriver) and disk.is_used:
            return driver
    return None


def measure(cell: Cell, run_ms: int = RUN_MS) -> Answer:
    """Run one cell."""
    world, result = run_variant(STACK, f"{cell.engine} {cell.stack}", run_ms=run_ms)
    read, written = window(result)
    queues = [disk.q for disk in world.disks.values()]
    driver = loop_driver(world)
    refused = 0 if driver is None else int(driver.nr_queued[REASON_EAGAIN_SYNC] + driver.nr_queued[REASON_EAGAIN_ASYNC])
    busy_ns = sum(int(cpu.busy_ns) for cpu in world.machine.cpus)
    return Answer(
        cell=cell,
        read=read,
        written=written,
        merges=sum(int(n) for q in queues for n in q.stats.merges),
        requests=int(world.disks[DRIVE].q.nr_completed),
        eagain=refused,
        inline=0 if driver is None else int(driver.nr_inline),
        cpus=busy_ns / (result.elapsed_ms * NSEC_PER_MSEC),
    )


def compare(workers: int = 1) -> list[Answer]:
    """Return the model's answer to each cell."""
    return spread(measure, CELLS, workers)


def table(answers: list[Answer]) -> list[str]:
    """Return the table as Markdown, readable as text."""
    lines = [
        "| | psync, report | model | error | libaio, report | model | error | merges | CPUs busy, psync | libaio |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    by_cell = {(one.cell.stack, one.cell.engine): one for one in answers}
    for stack in REPORT:
        row = [by_cell[stack, engine] for engine in ENGINES]
        cells = [
            f"{one.cell.mib_s:.0f} | {one.read:.0f} | {one.error:+.1%}{'' if one.is_within else ' **missed**'}"
            for one in row
        ]
        merges = sum(one.merges for one in row)
        lines.append(f"| {NAMES[stack]} | {' | '.join(cells)} | {merges} | {row[0].cpus:.1f} | {row[1].cpus:.1f} |")
    return lines
