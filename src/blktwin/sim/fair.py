"""A CPU with a fair run queue: tasks by CFS or EEVDF, hogs that can be preempted, cgroups with a CPU weight.

A task's step runs to its end, as on a first-come CPU (cpu.py): it is short. A worker that asks cond_resched() goes back
into the queue where its vruntime stands. A hog's stretch is open-ended: who wakes may cut it short, and it is booked up
to there.
Kernel: kernel/sched/fair.c, v5.10 and v6.12.
Differs: a step that a wakeup would have preempted goes on to its end. No periodic load balancing: an idle CPU takes
what waits elsewhere in its cache domain when it goes idle, and is given it when a slice ends there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.machine import Task
from blktwin.sim.cpu import Cpu
from blktwin.sim.fair_queue import CpuGroup, Entity, FairParams, FairQueue, nice_weight
from blktwin.sim.hog import Hog

if TYPE_CHECKING:
    from blktwin.sim.machine import SimMachine

FOREVER_NS: Final = 1 << 60
MIGRATION_NS: Final = 500_000
"""A task that ran this short a time ago is left where its caches are (sysctl_sched_migration_cost)."""


def entity_of(task: Task) -> Entity:
    """Return a task's entity, made when it first runs."""
    se = task.sched
    if se is None:
        se = Entity(task, nice_weight(task.nice))
        se.is_hog = isinstance(task, Hog)
        task.sched = se
        return se
    assert isinstance(se, Entity)
    return se


class FairCpu(Cpu):
    """One CPU; the list of Cpu holds those whose waking is yet to come, root those that want to run."""

    def __init__(self, machine: SimMachine, index: int, idle_task: Task, params: FairParams) -> None:
        super().__init__(machine, index, idle_task)
        self.root: FairQueue = FairQueue(params)
        self.curr: Entity | None = None
        """Who has the CPU and wants to keep it."""
        self.hog: Task | None = None
        """The hog whose stretch is open; free_at_ns is its end if nothing happens."""
        self.is_kept: bool = False
        """The step that runs has said cond_resched()."""
        self.needs_pick: bool = False
        self.step_start_ns: i64 = 0
        self.booked_ns: i64 = 0
        """Up to when the hog is booked; busy_ns was booked_busy_ns then, what came since is interrupts."""
        self.booked_busy_ns: i64 = 0

    # -- coming and going

    def push(self, task: Task, at_head: bool) -> None:
        """Note a task that wakes at its runnable_at_ns."""
        task.is_queued = True
        self.nr_runnable += 1
        task.next_runnable = None
        tail = self.tail
        if tail is None:
            self.head = task
        else:
            tail.next_runnable = task
        self.tail = task

    def requeue(self, task: Task) -> None:
        """Keep the task that runs now in the queue."""
        task.is_queued = True
        self.nr_runnable += 1
        self.is_kept = True

    def has_to_choose(self, now_ns: i64) -> bool:
        """Say whether somebody has woken since the last choice, or the slice that runs is used up while others wait."""
        curr = self.curr
        if curr is not None and self.nr_runnable > 0:
            left = self.budget(curr)
            if 0 <= left <= now_ns - self.step_start_ns:
                return True
        return self.has_woken(now_ns)

    def has_woken(self, now_ns: i64) -> bool:
        """Say whether a task that is not in the queue yet has woken by now."""
        task = self.head
        while task is not None:
            if task.runnable_at_ns <= now_ns:
                return True
            task = task.next_runnable
        return False

    def admit(self, now_ns: i64) -> None:
        """Take those that have woken by now into the queue, in the order of their waking."""
        while True:
            first: Task | None = None
            task = self.head
            while task is not None:
                if task.runnable_at_ns <= now_ns and (first is None or task.runnable_at_ns < first.runnable_at_ns):
                    first = task
                task = task.next_runnable
            if first is None:
                return
            self.unlist(first)
            se = entity_of(first)
            self.enqueue(se)
            curr = self.curr
            if curr is not None and not self.needs_pick:
                self.needs_pick = self.preempts(se, curr)

    def unlist(self, task: Task) -> None:
        """Take a task out of the list of those to wake."""
        before: Task | None = None
        other = self.head
        while other is not None and other is not task:
            before = other
            other = other.next_runnable
        if before is None:
            self.head = task.next_runnable
        else:
            before.next_runnable = task.next_runnable
        if self.tail is task:
            self.tail = before
        task.next_runnable = None

    def enqueue(self, se: Entity) -> None:
        """Put an entity into its queue, and its cgroup's into the root's."""
        task = se.task
        assert task is not None
        if se.queue is None:
            se.group = self.machine.cpu_group_of(task)
        group = se.group
        if group is None:
            self.root.enqueue(se)
            return
        part = group.parts[self.index]
        own = part.own
        assert own is not None
        own.enqueue(se)
        group.load += se.weight
        self.reshare(group, part)
        if not part.is_on:
            self.root.enqueue(part)

    def dequeue(self, se: Entity) -> None:
        """Take an entity out of its queue, and an empty cgroup's out of the root's."""
        queue = se.queue
        assert queue is not None
        queue.dequeue(se)
        group = se.group
        if group is None:
            return
        part = group.parts[self.index]
        group.load -= se.weight
        if queue.nr == 0:
            self.root.dequeue(part)
        else:
            self.reshare(group, part)

    def reshare(self, group: CpuGroup, part: Entity) -> None:
        """Give a cgroup's entity here its part of the cgroup's weight."""
        own = part.own
        assert own is not None
        weight = max(2, group.shares * own.load // group.load)
        if weight != part.weight:
            self.root.reweight(part, weight)

    def preempts(self, woken: Entity, curr: Entity) -> bool:
        """Compare where both stand in one queue."""
        group = woken.group
        if group is curr.group:
            queue = woken.queue
            assert queue is not None
            return queue.preempts(woken, curr)
        a = woken if group is None else group.parts[self.index]
        b = curr if curr.group is None else curr.group.parts[self.index]
        return self.root.preempts(a, b)

    # -- choosing

    def pick(self) -> Entity | None:
        """Return the task that is to run next."""
        se = self.root.pick()
        while se is not None and se.own is not None:
            se = se.own.pick()
        return se

    def set_curr(self, se: Entity) -> None:
        """Give se the CPU."""
        self.curr = se
        group = se.group
        if group is None:
            self.root.set_curr(se)
            return
        part = group.parts[self.index]
        self.root.set_curr(part)
        own = part.own
        assert own is not None
        own.set_curr(se)

    def drop_curr(self) -> None:
        """Take the CPU away."""
        curr = self.curr
        self.curr = None
        self.root.curr = None
        if curr is not None and curr.group is not None:
            own = curr.group.parts[self.index].own
            assert own is not None
            own.curr = None

    def book(self, se: Entity, ns: i64) -> None:
        """Charge CPU time at all levels; a slice that is used up makes the CPU choose again."""
        queue = se.queue
        assert queue is not None
        if queue.charge(se, ns):
            self.needs_pick = True
        group = se.group
        if group is not None:
            part = group.parts[self.index]
            if self.root.charge(part, ns):
                self.needs_pick = True
            # Its tasks on other CPUs may have come or gone.
            self.reshare(group, part)

    def budget(self, se: Entity) -> i64:
        """Return for how long se may go on, -1 for ever."""
        queue = se.queue
        assert queue is not None
        left = queue.budget(se)
        group = se.group
        if group is None:
            return left
        part_left = self.root.budget(group.parts[self.index])
        if left < 0 or 0 <= part_left < left:
            return part_left
        return left

    # -- hogs

    def book_hog(self, hog: Task, now_ns: i64) -> None:
        """Charge the open stretch up to now, interrupts apart."""
        ns = now_ns - self.booked_ns - (self.busy_ns - self.booked_busy_ns)
        self.booked_ns = now_ns
        self.booked_busy_ns = self.busy_ns
        if ns <= 0:
            return
        hog.utime_ns += ns
        if self.machine.watches_tasks:
            self.machine.trace.task_ran(hog, now_ns - ns, now_ns)
        self.busy_ns += ns
        self.booked_busy_ns = self.busy_ns
        self.book(entity_of(hog), ns)
        if self.machine.has_pelt:
            self.machine.placement.ran(self, entity_of(hog), now_ns - ns, now_ns)

    def settle(self, now_ns: i64) -> None:
        """Book an open stretch up to now, for who looks at the counters."""
        hog = self.hog
        if hog is not None and now_ns > self.booked_ns and now_ns >= self.irq_free_at_ns:
            self.book_hog(hog, now_ns)

    def open_stretch(self, se: Entity, hog: Task, start_ns: i64) -> None:
        """Let a hog run from the local time on; the switch to it began at start_ns."""
        machine = self.machine
        self.hog = hog
        self.busy_ns += machine.local_ns - start_ns
        self.booked_ns = machine.local_ns
        self.booked_busy_ns = self.busy_ns
        self.extend(se, machine.local_ns)

    def extend(self, se: Entity, now_ns: i64) -> None:
        """Set the end of the open stretch."""
        left = self.budget(se)
        self.free_at_ns = now_ns + left if left >= 0 else FOREVER_NS
        self.look_again()

    def close_stretch(self, hog: Task, now_ns: i64) -> None:
        """Take the CPU from a hog; the rest of its stretch was never charged."""
        self.hog = None
        self.free_at_ns = now_ns
        self.nr_runnable += 1
        hog.ran_until_ns = now_ns
        hog.runnable_at_ns = now_ns

    # -- events

    def look_at(self, time_ns: i64) -> None:
        """See that the CPU looks at time_ns, when the stretch that runs can be cut or has ended."""
        least = self.free_at_ns if self.hog is None else self.irq_free_at_ns
        if least > time_ns:
            time_ns = least
        events = self.machine.events
        if self.is_queued:
            if self.time_ns <= time_ns:
                return
            events.remove(self)
        events.at(self, time_ns)

    def look_again(self) -> None:
        """See that the CPU looks when its stretch ends, or the next task wakes."""
        first_ns: i64 = FOREVER_NS
        if self.hog is not None or self.root.nr > 0:
            first_ns = self.free_at_ns
        task = self.head
        while task is not None:
            if task.runnable_at_ns < first_ns:
                first_ns = task.runnable_at_ns
            task = task.next_runnable
        if first_ns < FOREVER_NS:
            self.look_at(first_ns)

    def fire(self) -> None:
        """Run the next task up to where it sleeps, or see whether a hog may go on."""
        machine = self.machine
        now_ns = machine.events.now_ns
        hog = self.hog
        busy_until_ns = self.free_at_ns if hog is None else self.irq_free_at_ns
        if busy_until_ns > now_ns:
            machine.events.at(self, busy_until_ns)
            return
        if hog is not None:
            self.book_hog(hog, now_ns)
        self.admit(now_ns)
        curr = self.curr
        if curr is not None and not self.needs_pick:
            if hog is not None:
                self.extend(curr, now_ns)
                return
            self.run_step(curr, now_ns)
            return
        self.needs_pick = False
        se = self.pick()
        if se is None:
            if machine.placement.pull(self, now_ns):
                self.look_at(now_ns)
                return
            self.look_again()
            return
        if se is curr:
            # It goes on with a new slice.
            se.ran_ns = 0
            if se.group is not None:
                se.group.parts[self.index].ran_ns = 0
            if hog is not None:
                self.extend(se, now_ns)
                return
        else:
            if curr is not None:
                curr.nr_preempted += 1
                if hog is not None:
                    self.close_stretch(hog, now_ns)
            self.drop_curr()
            self.set_curr(se)
        if self.nr_runnable > 1:
            machine.placement.push(self, now_ns)
        self.run_step(se, now_ns)

    def run_step(self, se: Entity, start_ns: i64) -> None:
        """Switch to a task and run it up to where it sleeps or yields."""
        machine = self.machine
        task = se.task
        assert task is not None
        self.nr_runnable -= 1
        self.step_start_ns = start_ns
        self.begin_step(task, start_ns)
        if se.is_hog:
            if machine.is_uneven:
                machine.use_plain_costs()
            self.open_stretch(se, task, start_ns)
            return
        task.is_queued = False
        machine.current = task
        self.is_running = True
        self.is_kept = False
        utime_ns = task.utime_ns
        task.run()
        self.is_running = False
        machine.current = self.idle_task
        end_ns = machine.local_ns
        is_kept = self.is_kept
        if not is_kept:
            end_ns += machine.costs.sleep_ns
            task.nr_switches += 1
        self.end_step(task, start_ns, end_ns, utime_ns)
        self.book(se, end_ns - start_ns)
        if machine.has_pelt:
            machine.placement.ran(self, se, start_ns, end_ns)
        if not is_kept:
            self.drop_curr()
            self.dequeue(se)
        if self.nr_runnable > 0:
            self.look_again()
