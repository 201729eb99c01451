"""Rows of a real 6.12 on null_blk and on a loop device over it (tests/data/truth/loop-6.12.json), and on the model.

A row is POLICY.JOBS; raw is the device below itself. What must come out is each policy's ratio to raw, and the latency
of one psync job. README.md there tells how the rows were taken.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from blktwin.fio import jobfile
from blktwin.fio.ddir import READ, WRITE
from blktwin.fio.results import RunResult
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack, find_rules
from blktwin.lab.stack_file import parse_stack
from blktwin.lab.truth import TRUTH_DIR, Pair, Point, measured
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.hosts import Host, get_host

FILE = "loop-6.12.json"
AGAIN = "loop-6.12-again.json"
"""Raw and workqueue rows measured once more, on a VM built after the same recipe."""
HOST = "tcg-6.12"
RULES = "6.12.y"
RAW = "raw"
POLICIES = ("workqueue", "sync_read", "nowait_first")
QD1_JOBS = "psync1rr"
FITTED_LOOP_ROW = "workqueue.aio1x32rr"
"""The one loop row that costs are fitted on, beside raw ones."""
FITTED_ROWS = ("raw.psync1rr", "raw.aio1x32rr", "raw.aio1x32b16", "raw.psync12rw", FITTED_LOOP_ROW)
RATIO_LIMIT = 0.10
QD1_LIMIT = 0.05
JITTER_NS = (-6, -4, -2, 0, 2, 4, 6)
NULLB = "/dev/nullb0"
LOOP = "/dev/loop0"
DEVICE = f"{NULLB}=null,latency=20us,depth=256,queues=1,size=10g"
JOBS = {
    "psync12rw": ["--ioengine=psync", "--rw=rw", "--numjobs=12"],
    "aio12x16rw": ["--ioengine=libaio", "--iodepth=16", "--rw=rw", "--numjobs=12"],
    "aio1x32rr": ["--ioengine=libaio", "--iodepth=32", "--rw=randread"],
    "aio1x32b16": [
        "--ioengine=libaio",
        "--iodepth=32",
        "--rw=randread",
        "--iodepth_batch_submit=16",
        "--iodepth_batch_complete_max=32",
    ],
    "psync1rr": ["--ioengine=psync", "--rw=randread"],
}


@dataclass(slots=True)
class LoopRow(Pair):
    """One row of a policy: measured and modelled, with the raw row of the same jobs."""

    raw_truth: Point
    raw_model: Point

    @property
    def policy(self) -> str:
        """The policy, or raw."""
        return self.name.partition(".")[0]

    @property
    def jobs(self) -> str:
        """The jobs."""
        return self.name.partition(".")[2]

    @property
    def is_fitted(self) -> bool:
        """Say whether costs were fitted on this row."""
        return self.name in FITTED_ROWS

    @property
    def ratio_truth(self) -> float:
        """Throughput over that of raw, measured."""
        return self.truth.iops / self.raw_truth.iops

    @property
    def ratio_model(self) -> float:
        """Throughput over that of raw, modelled."""
        return self.model.iops / self.raw_model.iops

    @property
    def ratio_error(self) -> float:
        """The model's error of the ratio, as a fraction."""
        return self.ratio_model / self.ratio_truth - 1

    @property
    def is_within(self) -> bool:
        """Say whether the row holds its limits: the ratio, and with one psync job the latency."""
        is_near = self.jobs != QD1_JOBS or abs(self.lat_error) <= QD1_LIMIT
        # A raw row's own ratio is 1.
        return is_near and abs(self.ratio_error) <= RATIO_LIMIT


def read_rows(folder: Path = TRUTH_DIR, file: str = FILE) -> dict[str, Point]:
    """Return the measured rows by name."""
    rows = json.loads((folder / file).read_text())["rows"]
    return {name: measured(row) for name, row in rows.items()}


def row_jobs(jobs: str, device: str) -> list[str]:
    """Return a row's jobs as fio-style arguments: each has 500 MiB of its own."""
    words = ["--name=j", f"--filename={device}", "--direct=1", "--bs=4k", "--thread", "--group_reporting"]
    words += ["--time_based", "--runtime=400ms", "--size=500m", "--offset_increment=500m"]
    return words + JOBS[jobs]


def stack_of(policy: str, host: Host) -> Stack:
    """Return the device, and a loop device over it if the policy is one."""
    stack = Stack(devices=[parse_device(DEVICE)], scheduler="none", rules=find_rules(RULES), host=host)
    if policy != RAW:
        text = f'[loop.loop0]\nbacking-file = "{NULLB}"\ndirect-io = true\npolicy = "{policy}"\nhint = false\n'
        stack.loops = parse_stack(text, "loop0").read("").loops
    return stack


def run_row(name: str, host: Host) -> RunResult:
    """Run one row on the model."""
    policy, _, jobs = name.partition(".")
    words = row_jobs(jobs, NULLB if policy == RAW else LOOP)
    return simulate(jobfile.load([], words, env={}), stack_of(policy, host))


def point_of(result: RunResult) -> Point:
    """Return throughput and mean completion latency of all jobs together, as fio's group has them."""
    iops = 0.0
    total_us = 0.0
    ios = 0
    for ddir in (READ, WRITE):
        lanes = [job.stat.directions[ddir] for job in result.jobs]
        done = sum(int(lane.done_ios) for lane in lanes)
        if done:
            iops += done * 1000 / max(job.stat.runtime_ms(ddir) for job in result.jobs)
            total_us += sum(lane.clat.mean() * int(lane.done_ios) for lane in lanes) / 1000
            ios += done
    return Point(iops, total_us / ios)


def measure(name: str, host: Host) -> Point:
    """Return the model's throughput and mean completion latency for a row, in one run."""
    return point_of(run_row(name, host))


def typical(name: str, host: Host) -> Point:
    """Return the run of median throughput among those with user_io a few ns more or less.

    Who preempts whom hangs on single microseconds: one run may lie a few per cent beside its neighbours.
    """
    points = []
    for step_ns in JITTER_NS:
        costs = {**host.costs, "user_io": host.costs["user_io"] + step_ns}
        near = Host(host.name, host.source, host.cpus, host.cache_cpus, host.hz, costs, host.spec)
        points.append(measure(name, near))
    points.sort(key=lambda point: point.iops)
    return points[len(points) // 2]


def compare(folder: Path = TRUTH_DIR, host: Host | None = None) -> list[LoopRow]:
    """Return all rows, measured and modelled, raw first."""
    host = host or get_host(HOST)
    truth = read_rows(folder)
    model = {name: typical(name, host) for name in truth}
    rows = []
    for name, point in truth.items():
        raw = f"{RAW}.{name.partition('.')[2]}"
        rows.append(LoopRow(name, point, model[name], truth[raw], model[raw]))
    return rows
