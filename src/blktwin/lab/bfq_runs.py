"""What the BFQ tables share: groups of load generators on null_blk, run over windows of time and over seeds.

A generator is one psync or libaio job that never ends. A seed jitters every service time and every start, as a real
machine does: what BFQ's injection makes of a run is decided by such details, so a chaotic row is a set of runs.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from blktwin.fio import jobfile
from blktwin.fio.results import RunResult
from blktwin.fio.spec import JobPlan
from blktwin.lab.run import collect, drive, prepare
from blktwin.lab.schedule import Schedule
from blktwin.lab.stack import Stack, find_rules
from blktwin.lab.world import World
from blktwin.rng import Rng
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.hosts import get_host
from blktwin.units import NSEC_PER_MSEC, NSEC_PER_USEC

HOSTS = {"5.10": "tcg-5.10", "5.17": "tcg-6.1", "6.1": "tcg-6.1", "6.12": "tcg-6.1", "7.2": "tcg-7.2"}
"""No row of the CPU fit is of 6.12, so it runs on the costs of 6.1."""
CHUNK_EVENTS = 20_000
FOREVER_US = 3_600_000_000
JITTER_STREAM = 31
START_JITTER_US = 500
PATH = "/dev/nullb0"

Weights = dict[str, int]
Given = TypeVar("Given")
Got = TypeVar("Got")


@dataclass(slots=True)
class Load:
    """One load generator: where it runs, when it starts and how long it runs (us)."""

    cgroup: str
    start_us: int
    runtime_us: int = FOREVER_US
    rw: str = "randwrite"
    iodepth: int = 0
    """0: psync; else libaio with so many."""


class Compared:
    """What every table's row can say: what a kernel did, and the model with each seed."""

    truth: float
    model: list[float]

    @property
    def middle(self) -> float:
        """The median over the seeds; of an even number, the upper of the two in the middle."""
        return sorted(self.model)[len(self.model) // 2]

    @property
    def error(self) -> float:
        """The model's error, as a fraction."""
        return self.middle / self.truth - 1


@dataclass(slots=True)
class Bench:
    """A null_blk in front of one kernel's scheduler, in a VM with one CPU."""

    kernel: str
    latency_us: int
    depth: int = 64
    scheduler: str = "bfq"
    tunables: list[tuple[str, str]] = field(default_factory=list)
    weights: Weights = field(default_factory=dict)
    """io.bfq.weight by cgroup."""
    device: str = ""
    """More device options, ",key=value"."""
    host: str = ""
    jitter: int = 0
    """Half of all requests take so many ns longer; chosen by the seed."""

    def stack(self, seed: int) -> Stack:
        """Return the stack to run on."""
        text = f"{PATH}=null,latency={self.latency_us}us,depth={self.depth},queues=1,size=10g{self.device}"
        return Stack(
            devices=[parse_device(text)],
            scheduler=self.scheduler,
            tunables=self.tunables if self.scheduler == "bfq" else [],
            rules=find_rules(self.kernel),
            host=get_host(self.host) if self.host else get_host(HOSTS[self.kernel]),
            seed=seed,
            faults={"slow_io_ppm": 500_000, "slow_io_ns": self.jitter} if self.jitter else {},
        )


def plan_of(loads: Sequence[Load], seed: int, jitter_us: int = START_JITTER_US) -> JobPlan:
    """Return fio jobs for the generators, each on a region of its own; the seed moves every start but the first."""
    rng = Rng(seed, JITTER_STREAM)
    words = ["--name=global", f"--filename={PATH}", "--direct=1", "--bs=4k", "--thread", "--norandommap"]
    words += ["--time_based", "--size=500m"]
    for at, load in enumerate(loads):
        start = load.start_us + (int(rng.below(jitter_us)) if load.start_us and jitter_us else 0)
        engine = ["--ioengine=libaio", f"--iodepth={load.iodepth}"] if load.iodepth else ["--ioengine=psync"]
        words += [f"--name=t{at}", f"--startdelay={start}us", f"--runtime={load.runtime_us}us", *engine]
        words += [f"--rw={load.rw}", f"--offset={500 * (at % 20)}m"]
        if load.cgroup != "/":
            words.append(f"--cgroup={load.cgroup}")
    return jobfile.load([], words, env={})


def prepare_weighted(plan: JobPlan, stack: Stack, weights: Weights) -> tuple[World, Schedule]:
    """Build a run whose cgroups have weights before anything runs."""
    world, schedule = prepare(plan, stack)
    for path, weight in weights.items():
        world.machine.cgroups.get(path).set_weight(weight)
    return world, schedule


def run_windows(
    bench: Bench, loads: Sequence[Load], windows_us: Sequence[tuple[int, int]], seed: int
) -> list[list[float]]:
    """Return IOPS of every generator in each window (from, until; us, rising); the run ends with the last window."""
    world, schedule = prepare_weighted(plan_of(loads, seed), bench.stack(seed), bench.weights)
    schedule.begin(world.threads)
    rates = []
    for begin, end in windows_us:
        before = counts_at(world, begin)
        after = counts_at(world, end)
        rates.append([(b - a) * 1e6 / (end - begin) for a, b in zip(before, after, strict=True)])
    return rates


def counts_at(world: World, at_us: int) -> list[int]:
    """Run up to a time and return how many I/Os each thread has completed."""
    while world.machine.run(at_us * NSEC_PER_USEC, CHUNK_EVENTS) == CHUNK_EVENTS:
        pass
    return [int(thread.nr_completed) for thread in world.threads]


def run_jobs(bench: Bench, plan: JobPlan, seed: int) -> RunResult:
    """Run fio jobs to their end and return fio's result."""
    world, schedule = prepare_weighted(plan, bench.stack(seed), bench.weights)
    return collect(world, schedule, drive(world, schedule))


def spread(run: Callable[[Given], Got], items: Sequence[Given], workers: int = 1) -> list[Got]:
    """Return run(item) for all items, in their order, in so many processes."""
    if workers < 2 or len(items) < 2:
        return [run(item) for item in items]
    context = multiprocessing.get_context("spawn")
    ignored = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(workers, context, initializer=signal.signal, initargs=ignored) as pool:
        try:
            return list(pool.map(run, items))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def ms(value: float) -> int:
    """Return milliseconds as us."""
    return round(value * NSEC_PER_MSEC / NSEC_PER_USEC)
