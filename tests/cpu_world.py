"""A machine without devices, for tests of CPUs, run queues and workers: tasks of steps, work items, hogs."""

from __future__ import annotations

from collections.abc import Callable

from blktwin.block.cgroup import Cgroup
from blktwin.block.machine import BlockingWork, Task, Timer
from blktwin.sim.costs import Costs
from blktwin.sim.faults import Faults
from blktwin.sim.hog import Hog
from blktwin.sim.machine import SimMachine
from blktwin.sim.topology import CpuSpec
from blktwin.sim.trace import CostTrace

MS = 1_000_000
END = 1 << 59


def make_spec(**values: object) -> CpuSpec:
    """Return a spec with some values set."""
    spec = CpuSpec()
    for name, value in values.items():
        assert hasattr(spec, name), name
        setattr(spec, name, value)
    return spec


def make_world(
    cpus: int = 1, spec: CpuSpec | None = None, trace: CostTrace | None = None, **costs_ns: int
) -> SimMachine:
    """Return a machine with some costs."""
    costs = Costs()
    costs.update(costs_ns)
    trace = trace or CostTrace(costs)
    trace.costs = costs
    machine = SimMachine(trace, nr_cpus=cpus, hz=250, costs=costs, faults=Faults(1, {}), spec=spec)
    trace.bind(machine)
    return machine


def add_hog(machine: SimMachine, nice: int = 0, cpus: list[int] | None = None, cgroup: Cgroup | None = None) -> Hog:
    """Start a hog at the beginning."""
    hog = Hog(900, "hog", cgroup or machine.cgroups.root, nice, cpus or [])
    machine.start_hog(hog, 0)
    return hog


def used(task: Task) -> int:
    """Return a task's CPU time in ns."""
    return int(task.utime_ns) + int(task.stime_ns)


class Wake(Timer):
    """A timer that wakes a task."""

    def __init__(self, task: Sleeper) -> None:
        super().__init__()
        self.task = task

    def fire(self) -> None:
        """Wake it."""
        self.task.machine.wake_task(self.task)


class Sleeper(Task):
    """A task that sleeps, runs for a while, and sleeps again; waits holds from wake-up to running in ns."""

    def __init__(
        self, machine: SimMachine, sleep_ns: int, run_ns: int, rounds: int, cgroup: Cgroup | None = None
    ) -> None:
        super().__init__(1, "sleeper", cgroup or machine.cgroups.root)
        self.machine = machine
        self.sleep_ns = sleep_ns
        self.run_ns = run_ns
        self.rounds = rounds
        self.waits: list[int] = []
        self.cpus_used: list[int] = []
        self.timer = Wake(self)

    def run(self) -> None:
        """Run, and ask for the next waking."""
        machine = self.machine
        self.waits.append(int(machine.local_ns) - int(self.runnable_at_ns))
        self.cpus_used.append(self.cpu)
        machine.charge(self.run_ns)
        self.rounds -= 1
        if self.rounds > 0:
            # Not in step with anything.
            jitter = self.rounds * 7919 % 101 * self.sleep_ns // 200
            machine.arm_timer(self.timer, int(machine.local_ns) + self.sleep_ns + jitter)


class Item(BlockingWork):
    """A work item that runs in parts of part_ns each, yielding between; starts and ends in ns, workers by name."""

    def __init__(self, machine: SimMachine, part_ns: int, parts: int = 1) -> None:
        super().__init__()
        self.machine = machine
        self.part_ns = part_ns
        self.parts = parts
        self.left = 0
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.workers: list[str] = []
        self.cpus: list[int] = []
        self.on_start: Callable[[], None] | None = None

    def advance(self, worker: Task) -> bool:
        """Do a part."""
        machine = self.machine
        if self.left == 0:
            self.left = self.parts
            self.starts.append(int(machine.local_ns))
            self.workers.append(worker.comm)
            self.cpus.append(worker.cpu)
            if self.on_start is not None:
                self.on_start()
        while True:
            machine.charge(self.part_ns)
            self.left -= 1
            if self.left == 0:
                self.ends.append(int(machine.local_ns))
                return True
            if machine.cond_resched(worker):
                return False
