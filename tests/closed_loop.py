"""A small world for the tests of sim/: one device, its queue, and tasks that keep bios in flight, without fio."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from blktwin.block.bio import BLK_STS_OK, REQ_OP_READ, REQ_OP_WRITE, REQ_PREFLUSH, REQ_SYNC, Bio
from blktwin.block.elevator import Elevator
from blktwin.block.limits import segments_of
from blktwin.block.machine import Task
from blktwin.block.queue import RequestQueue
from blktwin.block.rules import Rules
from blktwin.block.submit import resume_submission, submit_bio
from blktwin.drivers.hardware import HardwareDriver
from blktwin.rng import Rng
from blktwin.sim.costs import Costs
from blktwin.sim.devices.build import build_device
from blktwin.sim.devices.profiles import builtin_profiles
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.faults import Faults
from blktwin.sim.hosts import get_host
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import CostTrace

Io = tuple[int, int, int, int]
"""op, flags, first sector, sectors."""

END = 1 << 62


def rules_without_plugs() -> Rules:
    """Return v6.12 without the plug around each bio."""
    rules = Rules("test")
    rules.submit_on_stack_plug = False
    return rules


class World:
    """A machine with one device; everything is free of charge unless costs are given."""

    def __init__(
        self,
        device: str,
        *,
        cpus: int = 1,
        costs: Costs | None = None,
        seed: int = 1,
        elevator: Elevator | None = None,
        faults: dict[str, int] | None = None,
        rules: Rules | None = None,
    ) -> None:
        costs = costs or Costs()
        trace = CostTrace(costs)
        self.machine = SimMachine(trace, nr_cpus=cpus, hz=250, costs=costs, faults=Faults(seed, faults or {}))
        trace.bind(self.machine)
        self.device, self.limits, queues, depth, capacity = build_device(self.machine, parse_device(device), seed)
        self.q = RequestQueue(
            self.machine,
            rules or rules_without_plugs(),
            HardwareDriver(self.device),
            self.limits,
            name="test0",
            capacity_sectors=capacity,
            nr_hw_queues=queues,
            queue_depth=depth,
            elevator=elevator,
        )
        self.jobs: list[Job] = []

    def job(self, ios: Callable[[int], Io | None], depth: int = 1, cpu: int = 0, at_ns: int = 0) -> Job:
        """Add a task that submits ios(0), ios(1), ... until it gives None."""
        job = Job(self, len(self.jobs) + 1, ios, depth)
        self.jobs.append(job)
        self.machine.start_task(job, cpu, at_ns)
        return job

    def run(self, until_ns: int = END) -> None:
        """Run to the end, or to a time."""
        self.machine.run(until_ns, END)

    def check_conservation(self) -> None:
        """What was submitted has ended, and every tag is back."""
        assert self.device.in_device == 0
        for job in self.jobs:
            assert len(job.done) == job.nr_submitted
        for hctx in self.q.hctxs:
            assert hctx.tags.in_use() == 0
            assert hctx.sched_tags is None or hctx.sched_tags.in_use() == 0


class JobBio(Bio):
    """A bio that its job uses again and again."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
        self.number = 0
        self.issued_ns = 0
        self.io: Io = (0, 0, 0, 0)

    def end_io(self) -> None:
        """Tell the job."""
        self.job.ended(self)


class Done:
    """One I/O that has ended: times in ns."""

    def __init__(self, bio: JobBio, done_ns: int) -> None:
        self.number = bio.number
        self.io = bio.io
        self.issued_ns = bio.issued_ns
        self.done_ns = done_ns
        self.status = int(bio.status)
        self.ns = done_ns - bio.issued_ns


class Job(Task):
    """Keeps `depth` bios in flight; done holds the ended ones in the order of their end."""

    def __init__(self, world: World, pid: int, ios: Callable[[int], Io | None], depth: int) -> None:
        super().__init__(pid, f"job{pid}", world.machine.cgroups.root)
        self.machine = world.machine
        self.q = world.q
        self.ios = ios
        self.free = [JobBio(self) for _ in range(depth)]
        self.nr_submitted = 0
        self.is_at_end = False
        self.done: list[Done] = []

    def run(self) -> None:
        """Submit as much as the depth allows, then sleep."""
        trace = self.machine.trace
        if self.is_blocked and not resume_submission(self):
            return
        while self.free and not self.is_at_end:
            io = self.ios(self.nr_submitted)
            if io is None:
                self.is_at_end = True
                return
            bio = self.free.pop()
            trace.user_io(self)
            trace.sys_enter(self, 0)
            trace.io_prep(self)
            bio.number = self.nr_submitted
            bio.io = io
            bio.op, bio.flags, bio.sector, bio.nr_sectors = io
            bio.nr_segments = segments_of(bio.nr_sectors)
            bio.status = BLK_STS_OK
            bio.remaining = 1
            bio.parent = None
            bio.issued_ns = int(self.machine.now_ns())
            self.nr_submitted += 1
            if not submit_bio(self.q, bio):
                return

    def ended(self, bio: JobBio) -> None:
        """Book an end, and wake up when nothing keeps the task busy."""
        self.done.append(Done(bio, int(self.machine.now_ns())))
        self.free.append(bio)
        if not self.is_blocked:
            self.machine.wake_task(self)


def random_io(
    seed: int, op: int, nr_sectors: int, count: int, span_sectors: int = 1 << 24
) -> Callable[[int], Io | None]:
    """Give count random I/Os of one size, aligned to it."""
    rng = Rng(seed, 99)

    def ios(number: int) -> Io | None:
        if number >= count:
            return None
        flags = REQ_SYNC if op == REQ_OP_WRITE else 0
        return op, flags, int(rng.below(span_sectors // nr_sectors)) * nr_sectors, nr_sectors

    return ios


def sequential_io(op: int, nr_sectors: int, count: int, first: int = 0) -> Callable[[int], Io | None]:
    """Give count I/Os of one size, one behind the other."""
    return lambda number: (op, 0, first + number * nr_sectors, nr_sectors) if number < count else None


def list_io(ios: list[Io]) -> Callable[[int], Io | None]:
    """Give the I/Os of a list."""
    return lambda number: ios[number] if number < len(ios) else None


def read(sector: int, nr_sectors: int = 8) -> Io:
    """One read."""
    return REQ_OP_READ, 0, sector, nr_sectors


def write(sector: int, nr_sectors: int = 8, flags: int = 0) -> Io:
    """One synchronous write."""
    return REQ_OP_WRITE, REQ_SYNC | flags, sector, nr_sectors


def flush() -> Io:
    """One flush without data, as fsync sends it."""
    return REQ_OP_WRITE, REQ_SYNC | REQ_PREFLUSH, 0, 0


def main() -> None:
    """Print what every profile does under load and faults, one digest a line (a parity test compares two builds)."""
    faults = {"io_error_ppm": 10_000, "refuse_ppm": 10_000, "slow_io_ppm": 10_000, "slow_io_ns": 77_777}
    for profile in builtin_profiles():
        world = World(f"/dev/nvme0n1={profile}", cpus=4, costs=get_host().cost_table(), seed=11, faults=dict(faults))
        for at in range(6):
            world.job(random_io(at, at % 2, 8 << at % 3, 300), 3, at % 4, at * 1000)
        world.run()
        world.check_conservation()
        ends = [(done.number, done.issued_ns, done.done_ns, done.status) for job in world.jobs for done in job.done]
        print(profile, hashlib.sha256(repr(ends).encode()).hexdigest())


if __name__ == "__main__":
    main()
