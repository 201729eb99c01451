"""StageTrace that also watches loop drivers at work: who executes what, why, in which batches, behind whom."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from blktwin.block.bio import REQ_OP_READ, REQ_OP_WRITE, Bio
from blktwin.block.machine import Task
from blktwin.block.request import Request
from blktwin.drivers.loop.reasons import NR_REASONS, REASON_INLINE
from blktwin.sim.costs import Costs
from blktwin.sim.machine import SimMachine
from blktwin.sim.stage_device import DeviceStages
from blktwin.sim.stage_loop import Activation, LoopFacts, Stretches
from blktwin.sim.stages import RequestTimes, StageTrace
from blktwin.sim.workqueue import PoolWorker

NO_KEY: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class WatchTrace(StageTrace):
    """Adds a LoopFacts to every loop device."""

    def __init__(self, costs: Costs) -> None:
        super().__init__(costs)
        self.loops: dict[str, LoopFacts] = {}
        """By the device's name, which is its workqueue's too."""
        self.activations: dict[int, Activation] = {}
        """Of each kernel worker, by pid."""
        self.stretches: list[Stretches | None] = []
        """Of each CPU."""
        self.tasks: dict[int, Task] = {}
        """All that have run, by pid."""

    def bind(self, machine: SimMachine) -> None:
        """Take the machine, and hear of every stretch of a task on a CPU."""
        super().bind(machine)
        self.stretches = [None] * machine.nr_cpus
        machine.watches_tasks = True

    def facts_of(self, device: DeviceStages) -> LoopFacts:
        """Return what is kept of a loop device."""
        facts = device.loop
        if facts is None:
            facts = LoopFacts()
            device.loop = facts
            self.loops[device.q.name] = facts
        return facts

    # -- requests that are on their way through the driver

    def bio_queue(self, bio: Bio) -> None:
        """See whether a request that still waits inside the driver ends where this bio begins."""
        super().bio_queue(bio)
        facts = self.bio_device(bio).loop
        if facts is not None and facts.on_their_way and bio.op <= REQ_OP_WRITE and bio.nr_sectors > 0:
            if int(bio.sector << 1 | bio.op) in facts.on_their_way:
                facts.nr_followers += 1

    def loop_dispatch(self, rq: Request) -> None:
        """See a request come in."""
        super().loop_dispatch(rq)
        times = self.times_of(rq)
        facts = self.facts_of(times.device)
        if rq.op <= REQ_OP_WRITE:
            times.key = rq.end_sector() << 1 | rq.op
            facts.set_out(int(times.key))

    def loop_lower_queue(self, rq: Request) -> None:
        """See a request reach the device below."""
        super().loop_lower_queue(rq)
        self.has_arrived(self.times_of(rq))

    def rq_complete(self, rq: Request, status: i64, nr_bytes: i64) -> None:
        """See a request end, or a part of it; it may never have reached the device below."""
        times = self.times_of(rq)
        self.has_arrived(times)
        runner = times.runner
        facts = times.device.loop
        if runner is not None and facts is not None:
            facts.executed(runner, times.w_ns >= 0, times.depth)
            times.runner = None
        super().rq_complete(rq, status, nr_bytes)

    def has_arrived(self, times: RequestTimes) -> None:
        """Forget that a request is on its way."""
        facts = times.device.loop
        if times.key != NO_KEY and facts is not None:
            facts.arrived(int(times.key))
            times.key = NO_KEY

    # -- who executes it

    def loop_work(self, rq: Request, reason: i64) -> None:
        """Count the reason."""
        super().loop_work(rq, reason)
        facts = self.facts_of(self.times_of(rq).device)
        facts.given[reason + (0 if rq.op == REQ_OP_READ else NR_REASONS)] += 1

    def loop_begin(self, rq: Request, task: Task, reason: i64) -> None:
        """Note who begins: of an attempt and a worker's turn the latter is who executes it."""
        super().loop_begin(rq, task, reason)
        times = self.times_of(rq)
        facts = self.facts_of(times.device)
        times.runner = facts.runner_of(task)
        times.depth = task.fs_depth + 1
        if reason == REASON_INLINE:
            facts.tried[0 if rq.op == REQ_OP_READ else 1] += 1
            return
        activation = self.activations.get(task.pid)
        if activation is not None:
            activation.nr_begun += 1

    # -- workers

    def work_begin(self, task: Task, name: str, waited_ns: i64) -> None:
        """Count an activation, and its wait for a worker."""
        super().work_begin(task, name, waited_ns)
        facts = self.loops.get(name)
        activation = self.activations.get(task.pid)
        if activation is None:
            activation = Activation()
            self.activations[task.pid] = activation
        activation.facts = facts
        activation.nr_begun = 0
        if facts is None:
            return
        facts.nr_works += 1
        activation.last = facts
        facts.worker_wait.add(waited_ns if waited_ns > 0 else 0)

    def work_end(self, task: Task) -> None:
        """Count what the activation has begun."""
        super().work_end(task)
        activation = self.activations.get(task.pid)
        if activation is not None:
            facts = activation.facts
            if facts is not None:
                facts.work_ended(activation.nr_begun)
            activation.facts = None

    def task_ran(self, task: Task, from_ns: i64, until_ns: i64) -> None:
        """Remember a stretch; of a worker, count how long and behind whom it has waited for the CPU before it."""
        super().task_ran(task, from_ns, until_ns)
        self.tasks[task.pid] = task
        stretches = self.stretches[task.cpu]
        if stretches is None:
            stretches = Stretches(task)
            self.stretches[task.cpu] = stretches
        if isinstance(task, PoolWorker):
            activation = self.activations.get(task.pid)
            if activation is not None:
                facts = activation.last
                waited_ns = task.wait_ns - activation.seen_wait_ns
                activation.seen_wait_ns = task.wait_ns
                if facts is not None:
                    facts.cpu_wait.add(waited_ns)
                    stretches.account(from_ns - waited_ns, from_ns, facts.behind)
        stretches.add(task, from_ns, until_ns)
