"""`--explain loop`: who executed a loop device's requests, why there, how long they waited, and behind whom.

The numbers; explain_loop_text.py prints them, explain_loop_words.py says what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blktwin.drivers.loop.device import LoopDevice
from blktwin.drivers.loop.reasons import (
    NR_REASONS,
    REASON_EAGAIN_ASYNC,
    REASON_EAGAIN_SYNC,
    REASON_HINT_SKIP,
    REASON_NAMES,
)
from blktwin.errors import UsageError
from blktwin.fio.hist import LatencyStat
from blktwin.fio.job import IoThread
from blktwin.lab.world import World
from blktwin.sim.cpu import Worker
from blktwin.sim.hog import Hog
from blktwin.sim.stage_device import D2C, LOOP_STAGES, STAGE_NAMES, W2X, DeviceStages
from blktwin.sim.stage_loop import LoopFacts
from blktwin.sim.stage_watch import WatchTrace
from blktwin.sim.workqueue import PoolWorker

READ, REST = 0, 1
KEY = "--explain"
Json = dict[str, object]


@dataclass(slots=True)
class Tries:
    """Attempts to execute without sleeping, of reads or of everything else, and what they came to."""

    tried: int = 0
    eagain: int = 0
    """The file would have slept."""
    eagain_late: int = 0
    """The device below had no room."""
    skipped: int = 0
    """Not tried, by the hint."""

    @property
    def failed(self) -> int:
        """Attempts in vain."""
        return self.eagain + self.eagain_late


@dataclass(slots=True)
class Executor:
    """One task that executed requests."""

    name: str
    inline: int
    """Requests that it had issued itself (or met in its queue run)."""
    given: int
    """Requests that it got as a worker."""


@dataclass(slots=True)
class Explained:
    """One loop device after the run; times in ns."""

    path: str
    policy: str
    is_direct: bool
    backing: str
    lower: str
    """The device below, as a path; "" for none."""
    requests: int
    executors: list[Executor]
    reasons: dict[str, int]
    """Requests given to workers, by reason; those that were given twice count twice."""
    reads: Tries
    writes: Tries
    works: int
    empty_works: int
    batches: dict[int, int]
    """Works by the requests they executed."""
    d2c: LatencyStat
    stage_ns: dict[str, int]
    """Time of all I/Os in each stage inside D2C."""
    w2x: LatencyStat
    worker_wait: LatencyStat
    """Of works."""
    cpu_wait: LatencyStat
    """Of workers, each time that they got a CPU."""
    worker_cpu_ns: int
    """What they ran."""
    behind: dict[str, int]
    merged: int
    lower_merged: int
    followers: int
    queued: int
    depths: dict[int, int]
    span_ns: int

    @property
    def inline(self) -> int:
        """Requests executed by who issued them."""
        return sum(one.inline for one in self.executors)

    @property
    def given(self) -> int:
        """Requests executed by workers."""
        return sum(one.given for one in self.executors)

    @property
    def workers(self) -> list[Executor]:
        """Those that executed requests as workers."""
        return [one for one in self.executors if one.given]

    @property
    def works_per_request(self) -> float:
        """Activations by request that workers executed."""
        return self.works / self.given if self.given else 0.0

    @property
    def wanted_ns(self) -> int:
        """For how long the workers ran or wanted to run."""
        return int(self.cpu_wait.total) + self.worker_cpu_ns

    @property
    def waiting_share(self) -> float:
        """For which part of that other tasks had their CPU, 0 to 1."""
        return sum(self.behind.values()) / self.wanted_ns if self.wanted_ns else 0.0

    @property
    def interrupted_share(self) -> float:
        """For which part of it interrupts had it, or it was switched or woken up, 0 to 1."""
        rest = int(self.cpu_wait.total) - sum(self.behind.values())
        return max(rest, 0) / self.wanted_ns if self.wanted_ns else 0.0

    def stage_share(self, name: str) -> float:
        """Return a stage's part of all D2C, 0 to 1."""
        whole = int(self.d2c.total)
        return self.stage_ns.get(name, 0) / whole if whole else 0.0


@dataclass(slots=True)
class CpuTime:
    """CPU time of the whole run, all CPUs (ns)."""

    ios: int = 0
    by: dict[str, int] = field(default_factory=dict)
    runnable_ns: dict[int, int] = field(default_factory=dict)
    """For how long so many unbound kworkers ran or waited for a CPU."""

    @property
    def total(self) -> int:
        """All but what hogs burn."""
        return sum(ns for name, ns in self.by.items() if name != HOGS)


HOGS = "hogs"


class LoopExplain:
    """Watches all loop devices of one run."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.loops: list[Explained] = []
        self.cpu = CpuTime()

    def install(self, world: World) -> None:
        """Take the world; UsageError without a loop device in use."""
        if not any(disk.is_used for disk in world.loops.disks):
            raise UsageError("no job uses a loop device: --stack FILE makes them", key=KEY)
        self.world = world

    def finish(self, end_ns: int) -> None:
        """Read what has been counted, at the end of the run."""
        world = self.world
        assert world is not None
        trace = world.trace
        assert isinstance(trace, WatchTrace)
        for disk in world.loops.disks:
            device = disk.q.trace_slot
            if isinstance(device, DeviceStages) and device.loop is not None:
                self.loops.append(explained(world, disk.path, disk.spec.backing, disk.loop, device, device.loop))
        self.cpu = cpu_time(world, trace, end_ns)


def explained(
    world: World, path: str, backing: str, loop: LoopDevice, device: DeviceStages, facts: LoopFacts
) -> Explained:
    """Return what was counted of a loop device."""
    driver = loop.driver
    file = driver.backing
    assert file is not None
    lower = file.lower_queue_name()
    below = next((disk for disk in world.disks.values() if disk.name == lower), None)
    reads, writes = tries_of(facts, READ), tries_of(facts, REST)
    return Explained(
        path=path,
        policy=loop.config.policy,
        is_direct=bool(loop.is_direct),
        backing=backing,
        lower=below.path if below is not None else "",
        requests=int(device.nr_completed),
        executors=executors_of(facts),
        reasons={
            name: int(facts.given[at] + facts.given[NR_REASONS + at])
            for at, name in enumerate(REASON_NAMES)
            if facts.given[at] + facts.given[NR_REASONS + at]
        },
        reads=reads,
        writes=writes,
        works=int(facts.nr_works),
        empty_works=int(facts.nr_empty_works),
        batches={at: int(count) for at, count in enumerate(facts.batches) if count},
        d2c=device.total(D2C),
        stage_ns={STAGE_NAMES[stage]: int(device.total(stage).total) for stage in LOOP_STAGES},
        w2x=device.total(W2X),
        worker_wait=facts.worker_wait,
        cpu_wait=facts.cpu_wait,
        worker_cpu_ns=sum(int(one.task.stime_ns) for one in facts.runners.values() if one.nr_given),
        behind=dict(sorted(facts.behind.items(), key=lambda pair: -pair[1])),
        merged=int(device.nr_merged_bios + device.nr_merged_requests),
        lower_merged=merges_of(below.q.trace_slot) if below is not None else 0,
        followers=int(facts.nr_followers),
        queued=int(device.nr_queued - device.nr_requeued),
        depths={at: int(count) for at, count in enumerate(facts.depths) if count},
        span_ns=max(int(device.last_ns - device.first_ns), 0),
    )


def tries_of(facts: LoopFacts, kind: int) -> Tries:
    """Return the attempts of reads, or of the rest."""
    base = kind * NR_REASONS
    return Tries(
        tried=int(facts.tried[kind]),
        eagain=int(facts.given[base + REASON_EAGAIN_SYNC]),
        eagain_late=int(facts.given[base + REASON_EAGAIN_ASYNC]),
        skipped=int(facts.given[base + REASON_HINT_SKIP]),
    )


def executors_of(facts: LoopFacts) -> list[Executor]:
    """Return who executed requests, the busiest first; tasks of one name that submit count as one."""
    workers: list[Executor] = []
    others: dict[str, Executor] = {}
    for runner in facts.runners.values():
        task = runner.task
        if isinstance(task, PoolWorker):
            workers.append(Executor(task.comm, int(runner.nr_inline), int(runner.nr_given)))
            continue
        name = task.spec.name if isinstance(task, IoThread) else task.comm
        one = others.setdefault(name, Executor(name, 0, 0))
        one.inline += int(runner.nr_inline)
        one.given += int(runner.nr_given)
    found = [one for one in [*others.values(), *workers] if one.inline or one.given]
    return sorted(found, key=lambda one: -(one.inline + one.given))


def merges_of(slot: object) -> int:
    """Return the merges of a device."""
    return int(slot.nr_merged_bios + slot.nr_merged_requests) if isinstance(slot, DeviceStages) else 0


def cpu_time(world: World, trace: WatchTrace, end_ns: int) -> CpuTime:
    """Return who used the CPUs, from the run's begin to its end."""
    machine = world.machine
    machine.settle(end_ns)
    by = {"jobs, user": 0, "jobs, system": 0, "kworkers": 0, "kblockd": 0, HOGS: 0, "others": 0}
    for task in trace.tasks.values():
        used = int(task.utime_ns + task.stime_ns)
        if isinstance(task, IoThread):
            by["jobs, user"] += int(task.utime_ns)
            by["jobs, system"] += int(task.stime_ns)
        elif isinstance(task, PoolWorker):
            by["kworkers"] += used
        elif isinstance(task, Worker):
            by["kblockd"] += used
        elif isinstance(task, Hog):
            by[HOGS] += used
        else:
            by["others"] += used
    busy = sum(int(cpu.busy_ns) for cpu in machine.cpus)
    by["interrupts"] = max(busy - sum(by.values()), 0)
    runnable: dict[int, int] = {}
    for pool in machine.pools.pools:
        for at, ns in enumerate(pool.runnable_ns):
            if ns:
                runnable[at] = runnable.get(at, 0) + int(ns)
    return CpuTime(
        ios=sum(int(thread.nr_completed) for thread in world.threads),
        by={name: ns for name, ns in by.items() if ns},
        runnable_ns=dict(sorted(runnable.items())),
    )


# -- JSON


def document(one: Explained, summary: list[str]) -> Json:
    """Return one loop device's explanation for JSON."""
    return {
        "policy": one.policy,
        "direct": one.is_direct,
        "backing": one.backing,
        "device_below": one.lower,
        "requests": one.requests,
        "inline": one.inline,
        "by_workers": one.given,
        "executors": [{"name": who.name, "inline": who.inline, "given": who.given} for who in one.executors],
        "reasons": dict(one.reasons),
        "tries": {"read": tries_data(one.reads), "write": tries_data(one.writes)},
        "works": one.works,
        "empty_works": one.empty_works,
        "works_per_request": round(one.works_per_request, 3),
        "requests_per_work": {str(at): count for at, count in one.batches.items()},
        "w2x": wait_data(one.w2x),
        "worker_wait": wait_data(one.worker_wait),
        "cpu_wait": wait_data(one.cpu_wait),
        "cpu_wait_share_percent": round(100 * one.waiting_share, 2),
        "interrupted_share_percent": round(100 * one.interrupted_share, 2),
        "behind_ms": {name: round(ns / 1e6, 3) for name, ns in one.behind.items()},
        "d2c_mean_ns": round(one.d2c.mean(), 3),
        "d2c_shares_percent": {name: round(100 * one.stage_share(name), 2) for name in one.stage_ns},
        "merges": {"here": one.merged, "below": one.lower_merged, "lost": one.followers},
        "call_depth": {str(at): count for at, count in one.depths.items()},
        "summary": summary,
    }


def tries_data(tries: Tries) -> Json:
    """Return attempts for JSON."""
    return {
        "tried": tries.tried,
        "eagain_sync": tries.eagain,
        "eagain_async": tries.eagain_late,
        "eagain_percent": round(100 * tries.failed / tries.tried, 2) if tries.tried else 0.0,
        "hint_skipped": tries.skipped,
    }


def wait_data(stat: LatencyStat) -> Json:
    """Return a wait for JSON."""
    if not stat.count:
        return {"count": 0}
    p50, p99 = stat.percentiles([50.0, 99.0])
    return {"count": int(stat.count), "mean_ns": round(stat.mean(), 3), "p50_ns": p50, "p99_ns": p99}


def cpu_document(cpu: CpuTime) -> Json:
    """Return the CPU time for JSON."""
    return {
        "ios": cpu.ios,
        "us_per_io": {name: round(ns / 1000 / cpu.ios, 3) for name, ns in cpu.by.items()} if cpu.ios else {},
        "runnable_kworkers_ms": {str(at): round(ns / 1e6, 3) for at, ns in cpu.runnable_ns.items()},
    }
