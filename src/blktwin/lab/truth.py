"""Rows measured on real kernels (tests/data/truth), and the same rows on the model.

A row is SCHEDULER.CGROUP.JOBS: 8 psync random writers for 1 s, or one for 0.5 s, on null_blk of 100 us and depth
64, in a VM with one CPU. README.md there tells how they were taken.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blktwin.fio import jobfile
from blktwin.fio.ddir import WRITE
from blktwin.fio.results import RunResult
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack, find_rules
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.hosts import Host, get_host

TRUTH_DIR = Path("tests/data/truth")
KERNELS = ("5.10", "6.1", "7.2")
CGROUPS = {"_cg": "/", "_cg_a": "/a", "_cg_c1_c2": "/c1/c2", "root": "/"}
QD1_ROW = "none.root.1w"
LOADED_ROW = "mq-deadline._cg_a.8w"
"""The two rows per kernel that CPU costs are fitted on."""


@dataclass(slots=True)
class Point:
    """One row's throughput and mean completion latency; gap_us: from a completion to the job's next I/O."""

    iops: float
    lat_us: float

    @property
    def period_us(self) -> float:
        """Time per I/O over all jobs."""
        return 1e6 / self.iops


@dataclass(slots=True)
class Pair:
    """One measured row and what the model says of it."""

    name: str
    truth: Point
    model: Point

    @property
    def iops_error(self) -> float:
        """The model's throughput error, as a fraction."""
        return self.model.iops / self.truth.iops - 1

    @property
    def lat_error(self) -> float:
        """The model's latency error, as a fraction."""
        return self.model.lat_us / self.truth.lat_us - 1


@dataclass(slots=True)
class Row(Pair):
    """A row of one kernel."""

    kernel: str

    @property
    def is_fitted(self) -> bool:
        """Say whether CPU costs were fitted on this row."""
        return self.name in (QD1_ROW, LOADED_ROW)


def measured(row: dict[str, Any]) -> Point:
    """Return throughput and mean latency of a row of a truth file, over all its jobs."""
    jobs = row["jobs"]
    return Point(row["iops"], sum(job["lat_us"] * job["ios"] for job in jobs) / sum(job["ios"] for job in jobs))


def read_truth(kernel: str, folder: Path = TRUTH_DIR) -> dict[str, Point]:
    """Return the rows of one kernel that run none or mq-deadline, by name."""
    rows = json.loads((folder / f"bfq-{kernel}.json").read_text())["rows"]
    return {name: measured(row) for name, row in rows.items() if name.split(".")[0] in ("none", "mq-deadline")}


def row_jobs(name: str) -> list[str]:
    """Return a row's jobs as fio-style arguments: each starts 20 ms after the one before, on 500 MiB of its own."""
    nr_jobs, runtime = (8, "1s") if name.endswith("8w") else (1, "500ms")
    words = ["--name=global", "--filename=/dev/nullb0", "--direct=1", "--ioengine=psync", "--bs=4k", "--rw=randwrite"]
    words += ["--thread", "--norandommap", "--time_based", f"--runtime={runtime}", "--size=500m"]
    for at in range(nr_jobs):
        words += [f"--name=t{at}", f"--startdelay={20 * at}ms", f"--offset={500 * at}m"]
    return words


def run_row(kernel: str, name: str, host: Host) -> RunResult:
    """Run one row on the model."""
    scheduler, cgroup, _ = name.split(".")
    stack = Stack(
        devices=[parse_device("/dev/nullb0=null,latency=100us,depth=64,queues=1,size=10g")],
        scheduler=scheduler,
        rules=find_rules(kernel),
        host=host,
        cgroup=CGROUPS[cgroup],
    )
    return simulate(jobfile.load([], row_jobs(name), env={}), stack)


def measure(kernel: str, name: str, host: Host) -> Point:
    """Return the model's throughput and mean completion latency for a row, computed as the truth's were."""
    jobs = run_row(kernel, name, host).jobs
    iops = 0.0
    total_us = 0.0
    ios = 0
    for job in jobs:
        lane = job.stat.directions[WRITE]
        iops += int(lane.total_ios) * 1000 / job.stat.runtime_ms(WRITE)
        total_us += lane.clat.mean() * int(lane.done_ios) / 1000
        ios += int(lane.done_ios)
    return Point(iops, total_us / ios)


def compare(kernel: str, folder: Path = TRUTH_DIR) -> list[Row]:
    """Return all rows of a kernel, measured and modelled with the host of that kernel (sim/hosts.toml)."""
    host = get_host(f"tcg-{kernel}")
    truth = read_truth(kernel, folder)
    return [Row(name, point, measure(kernel, name, host), kernel) for name, point in truth.items()]
