"""A CPU under EEVDF in detail: what the kernel looks at only at ticks and wakeups, and sleepers that stay in the queue.

A slice that is used up ends at the next tick or wakeup. Who sleeps after more than its share stays in the queue until
that owes it nothing and it is picked. A sleeper that wakes there is placed before the running task's time is brought up
to date, so it nearly always takes the CPU. Interrupts are booked as the time of whom they interrupt.
Kernel: dequeue_entity(), requeue_delayed_entity(), pick_next_entity() and task_tick_fair(), kernel/sched/fair.c, v6.12;
CONFIG_IRQ_TIME_ACCOUNTING off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.machine import Task
from blktwin.sim.fair import FairCpu
from blktwin.sim.fair_queue import NICE_0, Entity, FairParams

if TYPE_CHECKING:
    from blktwin.sim.machine import SimMachine

NS_PER_SECOND = 1_000_000_000


class TickCpu(FairCpu):
    """One CPU; cgroups with a CPU weight have no delayed tasks."""

    def __init__(self, machine: SimMachine, index: int, idle_task: Task, params: FairParams) -> None:
        super().__init__(machine, index, idle_task, params)
        self.tick_ns: i64 = NS_PER_SECOND // machine.hz
        self.next_tick_ns: i64 = self.tick_ns
        self.updated_vruntime: i64 = 0
        """The running task's at the last update_curr()."""
        self.seen_busy_ns: i64 = 0
        """What of busy_ns has been booked."""

    # -- choosing

    def has_to_choose(self, now_ns: i64) -> bool:
        """Say whether somebody has woken since the last choice, or a tick ends the slice that runs."""
        if self.needs_pick:
            return True
        curr = self.curr
        if curr is not None and self.nr_runnable > 0 and now_ns >= self.next_tick_ns:
            if curr.vruntime + (now_ns - self.step_start_ns) * NICE_0 // curr.weight >= curr.deadline:
                return True
        return self.has_woken(now_ns)

    def pick(self) -> Entity | None:
        """Return the task that is to run next; delayed ones that come first leave the queue.

        Kernel: pick_next_entity(), kernel/sched/fair.c, v6.12.
        """
        while True:
            se = super().pick()
            if se is None or not se.is_delayed:
                return se
            self.end_delay(se)

    def set_curr(self, se: Entity) -> None:
        """Give se the CPU."""
        super().set_curr(se)
        self.updated_vruntime = se.vruntime

    def update(self, curr: Entity) -> None:
        """Bring curr up to date, as update_curr() does: a slice that is used up ends if others are there."""
        self.updated_vruntime = curr.vruntime
        queue = curr.queue
        assert queue is not None
        if curr.vruntime >= curr.deadline:
            curr.deadline = curr.vruntime + queue.params.slice_ns * NICE_0 // curr.weight
            if queue.nr > 1:
                self.needs_pick = True

    # -- coming and going

    def admit(self, now_ns: i64) -> None:
        """Book interrupts, then take those that have woken by now."""
        irq_ns = self.busy_ns - self.seen_busy_ns
        self.seen_busy_ns = self.busy_ns
        curr = self.curr
        if irq_ns > 0 and curr is not None:
            self.book(curr, irq_ns)
        super().admit(now_ns)

    def enqueue(self, se: Entity) -> None:
        """Put a task that has woken into the queue; the running one is brought up to date, for a delayed one later."""
        curr = self.curr
        if se.is_delayed:
            self.requeue_delayed(se)
            if curr is not None and not self.needs_pick:
                self.update(curr)
            return
        if curr is not None:
            self.update(curr)
        super().enqueue(se)

    def requeue_delayed(self, se: Entity) -> None:
        """Let a delayed task stand where it is, or where the queue was at the last update if it is owed something.

        Kernel: requeue_delayed_entity(), kernel/sched/fair.c, v6.12.
        """
        queue = se.queue
        assert queue is not None
        if queue is not self.root:
            # It slept on another CPU.
            self.end_delay(se)
            super().enqueue(se)
            return
        se.is_delayed = False
        curr = self.curr
        ahead: i64 = 0
        if curr is not None and curr.group is None:
            ahead = (curr.vruntime - self.updated_vruntime) * curr.weight
        if queue.sum - ahead <= (se.vruntime - queue.base) * queue.load:
            return
        queue.dequeue(se)
        if queue.load > 0:
            se.vruntime = queue.base + (queue.sum - ahead) // queue.load
        se.deadline = se.vruntime + queue.params.slice_ns * NICE_0 // se.weight
        se.protected = -1
        queue.add(se)

    def dequeue(self, se: Entity) -> None:
        """Let a task go; one that sleeps after more than its share stays.

        Kernel: dequeue_entity(), kernel/sched/fair.c, v6.12.
        """
        task = se.task
        assert task is not None
        if se.group is None and not task.is_queued and not self.root.is_eligible(se):
            se.is_delayed = True
            return
        super().dequeue(se)

    def end_delay(self, se: Entity) -> None:
        """Take a delayed task out of its queue.

        Kernel: finish_delayed_dequeue_entity(), kernel/sched/fair.c, v6.12.
        """
        queue = se.queue
        assert queue is not None
        se.is_delayed = False
        queue.dequeue(se)
        if se.vlag > 0:
            se.vlag = 0

    # -- running

    def book(self, se: Entity, ns: i64) -> None:
        """Charge CPU time; what follows from it is seen at the next tick or wakeup."""
        if se.group is not None:
            super().book(se, ns)
            return
        self.root.run_on(se, ns)
        self.root.move_base()
        now_ns = self.free_at_ns if self.hog is None else self.machine.events.now_ns
        if now_ns >= self.next_tick_ns:
            self.next_tick_ns = now_ns - now_ns % self.tick_ns + self.tick_ns
            self.update(se)

    def budget(self, se: Entity) -> i64:
        """Return for how long se may go on if nobody wakes: to the tick after its slice; -1: for ever."""
        left = super().budget(se)
        if left < 0 or se.group is not None:
            return left
        now_ns = self.machine.events.now_ns
        end_ns = now_ns + left
        return end_ns + (self.tick_ns - end_ns % self.tick_ns) % self.tick_ns - now_ns

    def run_step(self, se: Entity, start_ns: i64) -> None:
        """Run a task up to where it sleeps or yields."""
        super().run_step(se, start_ns)
        self.seen_busy_ns = self.busy_ns
        if self.nr_runnable == 0 and self.root.nr > 0 and self.hog is None:
            # On the way to idle all delayed ones go.
            self.pick()
