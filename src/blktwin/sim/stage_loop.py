"""What --explain loop keeps of one loop device: who executed its requests, why, how long they waited, and behind whom.

Counts are of requests unless they say works (activations of a work item of the device's workqueue).
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.machine import Task
from blktwin.drivers.loop.reasons import NR_REASONS
from blktwin.fio.hist import LatencyStat

MAX_DEPTH: Final = 16
MAX_BATCH: Final = 32
OTHER_WORKERS: Final = "other kworkers"
KEPT_STRETCHES: Final = 512
"""Per CPU: what ran before that is forgotten."""


class Runner:
    """One task that executed requests of a loop device."""

    def __init__(self, task: Task) -> None:
        self.task: Task = task
        self.nr_inline: i64 = 0
        """Its own, where it issued them."""
        self.nr_given: i64 = 0
        """Those that it was given as a worker."""


class Activation:
    """One worker: the run of a work item that it is in, and what it has waited for CPUs in its life."""

    def __init__(self) -> None:
        self.facts: LoopFacts | None = None
        self.nr_begun: i64 = 0
        self.last: LoopFacts | None = None
        """The device of the loop work that it ran last."""
        self.seen_wait_ns: i64 = 0


class LoopFacts:
    """One loop device's executions; times in ns."""

    def __init__(self) -> None:
        self.runners: dict[int, Runner] = {}
        """By pid, in the order of their first request."""
        self.given: vec[i64] = vec[i64]([0] * (2 * NR_REASONS))
        """Requests given to workers, by reason; reads, then the rest."""
        self.tried: vec[i64] = vec[i64]([0, 0])
        """Attempts to execute in the issuer's context: reads, the rest."""
        self.nr_works: i64 = 0
        self.nr_empty_works: i64 = 0
        self.batches: vec[i64] = vec[i64]([0] * (MAX_BATCH + 1))
        """Works by how many requests they executed, the last one open."""
        self.depths: vec[i64] = vec[i64]([0] * (MAX_DEPTH + 1))
        """Requests by how many loop devices' file code was on the stack of who executed it, this one's included."""
        self.worker_wait: LatencyStat = LatencyStat()
        """Works: from being queued until their worker takes them."""
        self.cpu_wait: LatencyStat = LatencyStat()
        """Of workers, each time that they got a CPU: for how long they had been runnable."""
        self.behind: dict[str, int] = {}
        """Who ran on their CPUs meanwhile, by name (ns)."""
        self.on_their_way: dict[int, int] = {}
        """Issued requests that have not reached the device below, by their end and operation."""
        self.nr_followers: i64 = 0
        """Bios that begin where one of those ends: without the loop device they could have been merged."""

    def work_ended(self, nr_begun: i64) -> None:
        """Count a work item's run."""
        self.batches[nr_begun if nr_begun < MAX_BATCH else MAX_BATCH] += 1
        if nr_begun == 0:
            self.nr_empty_works += 1

    def runner_of(self, task: Task) -> Runner:
        """Return what is kept of a task."""
        runner = self.runners.get(task.pid)
        if runner is None:
            runner = Runner(task)
            self.runners[task.pid] = runner
        return runner

    def executed(self, runner: Runner, is_worker: bool, depth: i64) -> None:
        """Count a request that has ended."""
        if is_worker:
            runner.nr_given += 1
        else:
            runner.nr_inline += 1
        self.depths[depth if depth < MAX_DEPTH else MAX_DEPTH] += 1

    def set_out(self, key: int) -> None:
        """Note a request that is on its way through the driver."""
        self.on_their_way[key] = self.on_their_way.get(key, 0) + 1

    def arrived(self, key: int) -> None:
        """Note that it has reached the device below, or has ended."""
        count = self.on_their_way[key] - 1
        if count > 0:
            self.on_their_way[key] = count
        else:
            del self.on_their_way[key]


class Stretches:
    """Who ran last on one CPU: the latest stretches, in a ring."""

    def __init__(self, task: Task) -> None:
        self.tasks: list[Task] = [task] * KEPT_STRETCHES
        self.from_ns: vec[i64] = vec[i64]([0] * KEPT_STRETCHES)
        self.until_ns: vec[i64] = vec[i64]([0] * KEPT_STRETCHES)
        self.count: i64 = 0

    def add(self, task: Task, from_ns: i64, until_ns: i64) -> None:
        """Keep a stretch."""
        at = self.count % KEPT_STRETCHES
        self.tasks[at] = task
        self.from_ns[at] = from_ns
        self.until_ns[at] = until_ns
        self.count += 1

    def account(self, from_ns: i64, until_ns: i64, behind: dict[str, int]) -> None:
        """Add to `behind` who ran between two times; all workers of unbound pools count as one."""
        at = self.count
        oldest = at - KEPT_STRETCHES if at > KEPT_STRETCHES else 0
        while at > oldest:
            at -= 1
            index = at % KEPT_STRETCHES
            begun_ns = self.from_ns[index]
            ended_ns = self.until_ns[index]
            if ended_ns <= from_ns:
                return
            begun_ns = begun_ns if begun_ns > from_ns else from_ns
            ended_ns = ended_ns if ended_ns < until_ns else until_ns
            if ended_ns > begun_ns:
                comm = self.tasks[index].comm
                name = OTHER_WORKERS if comm.startswith("kworker/u") else comm
                behind[name] = behind.get(name, 0) + int(ended_ns - begun_ns)
