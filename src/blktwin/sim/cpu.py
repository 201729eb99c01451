"""CPUs as serial resources: a run queue, and when the CPU is free again.

Code runs ahead: a task's step happens at one event, its charges move the machine's local clock, and the CPU is busy
until then. What it wakes elsewhere carries that clock, so nothing runs before it was woken.
An interrupt that falls into a busy stretch runs at once and lengthens the stretch by its cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.machine import Task, Work
from blktwin.sim.events import Event

if TYPE_CHECKING:
    from blktwin.sim.machine import SimMachine


class IdleTask(Task):
    """A CPU's idle task: who is current inside an interrupt."""


class Cpu(Event):
    """One CPU; as an event it is "take the next runnable task"."""

    def __init__(self, machine: SimMachine, index: int, idle_task: Task) -> None:
        super().__init__()
        self.machine: SimMachine = machine
        self.index: int = index
        self.idle_task: Task = idle_task
        self.head: Task | None = None
        self.tail: Task | None = None
        self.nr_runnable: i64 = 0
        self.last: Task | None = None
        self.free_at_ns: i64 = 0
        """End of the stretch that is charged already."""
        self.irq_free_at_ns: i64 = 0
        self.busy_ns: i64 = 0
        self.is_running: bool = False
        """True while a task's step, or an interrupt, runs here: its end looks for the next task itself."""
        self.worker: Worker | None = None

    def push(self, task: Task, at_head: bool) -> None:
        """Put a task into the run queue."""
        task.is_queued = True
        self.nr_runnable += 1
        tail = self.tail
        if tail is None:
            task.next_runnable = None
            self.head = task
            self.tail = task
        elif at_head or self.goes_before_worker(task):
            task.next_runnable = self.head
            self.head = task
        else:
            task.next_runnable = None
            tail.next_runnable = task
            self.tail = task

    def requeue(self, task: Task) -> None:
        """Put the task that runs now back: it yields to what is due, not to others."""
        self.push(task, True)

    def has_to_choose(self, now_ns: i64) -> bool:
        """Say whether the CPU may have to go to another task than the one that runs."""
        return False

    def settle(self, now_ns: i64) -> None:
        """Book what runs up to now, for who looks at the counters; here all is booked when it begins."""

    def goes_before_worker(self, task: Task) -> bool:
        """Say whether task, woken while another task was in user space or could still be preempted, ran before that one
        queued the work which the worker at the head waits for (code runs ahead, so it is queued already)."""
        worker = self.worker
        if worker is None or self.head is not worker:
            return False
        return task.runnable_at_ns + self.machine.submit_atomic_ns < worker.runnable_at_ns

    def pop(self, now_ns: i64) -> Task | None:
        """Take the first task that has been woken by now; who wakes it may be ahead of the event queue."""
        before: Task | None = None
        task = self.head
        if task is not None and task.runnable_at_ns <= now_ns:
            self.head = task.next_runnable
            if self.head is None:
                self.tail = None
            task.next_runnable = None
            task.is_queued = False
            self.nr_runnable -= 1
            return task
        while task is not None and task.runnable_at_ns > now_ns:
            before = task
            task = task.next_runnable
        if task is None:
            return None
        if before is None:
            self.head = task.next_runnable
        else:
            before.next_runnable = task.next_runnable
        if self.tail is task:
            self.tail = before
        task.next_runnable = None
        task.is_queued = False
        self.nr_runnable -= 1
        return task

    def look_at(self, time_ns: i64) -> None:
        """See that the CPU looks for a task at time_ns, or when it is free, if that is later."""
        if self.free_at_ns > time_ns:
            time_ns = self.free_at_ns
        events = self.machine.events
        if self.is_queued:
            if self.time_ns <= time_ns:
                return
            events.remove(self)
        events.at(self, time_ns)

    def look_again(self) -> None:
        """See that the CPU looks for a task when the first of its queue is to run."""
        task = self.head
        if task is None:
            return
        first_ns = task.runnable_at_ns
        # What can run once the CPU is free need not be compared.
        while task is not None and first_ns > self.free_at_ns:
            if task.runnable_at_ns < first_ns:
                first_ns = task.runnable_at_ns
            task = task.next_runnable
        self.look_at(first_ns)

    def is_idle(self, now_ns: i64) -> bool:
        """Say whether nothing runs or waits here."""
        return self.nr_runnable == 0 and self.free_at_ns <= now_ns and not self.is_running

    def fire(self) -> None:
        """Run the next task up to where it sleeps."""
        machine = self.machine
        if self.free_at_ns > machine.events.now_ns:
            # An interrupt has lengthened the stretch.
            machine.events.at(self, self.free_at_ns)
            return
        start = machine.events.now_ns
        found = self.pop(start)
        if found is None:
            self.look_again()
            return
        # Not optional from here on: each use as one would be a check.
        task: Task = found
        self.begin_step(task, start)
        machine.current = task
        self.is_running = True
        utime_ns = task.utime_ns
        task.run()
        self.is_running = False
        machine.current = self.idle_task
        task.nr_switches += 1
        end = machine.local_ns
        if not task.is_queued:
            end += machine.costs.sleep_ns
        self.end_step(task, start, end, utime_ns)
        if self.nr_runnable > 0:
            self.look_again()

    def begin_step(self, task: Task, start_ns: i64) -> None:
        """Come out of idleness and switch to task, on the machine's clock."""
        machine = self.machine
        machine.local_ns = start_ns
        if machine.is_uneven:
            machine.use_costs_of(self.index)
        if self.free_at_ns < start_ns:
            # Woken from another CPU: this one has been idle.
            self.last = None
            machine.local_ns += machine.exit_idle_ns(self, start_ns)
        if task is not self.last:
            self.last = task
            machine.charge_switch(task)
        task.cpu = self.index

    def end_step(self, task: Task, start_ns: i64, end_ns: i64, utime_ns: i64) -> None:
        """Book a stretch of task, whose user time was utime_ns before."""
        machine = self.machine
        if machine.is_uneven:
            machine.use_plain_costs()
        task.stime_ns += end_ns - start_ns - (task.utime_ns - utime_ns)
        self.busy_ns += end_ns - start_ns
        self.free_at_ns = end_ns
        task.ran_until_ns = end_ns
        if machine.watches_tasks:
            machine.trace.task_ran(task, start_ns, end_ns)


class SimWork(Event):
    """A delayed work item's timer, made once per item; it may stay queued when the work has come sooner."""

    def __init__(self, machine: SimMachine, work: Work) -> None:
        super().__init__()
        self.machine: SimMachine = machine
        self.work: Work = work
        self.cpu: int = 0
        self.due_ns: i64 = -1
        """When it is to be handed over, -1 for never."""
        self.due_serial: i64 = 0
        """Its place among what is due at the same time."""
        self.ready_at_ns: i64 = 0
        """When it was handed over, on the clock of who did."""
        self.next: SimWork | None = None
        self.is_listed: bool = False

    def fire(self) -> None:
        """Hand the work to its CPU's worker, or wait on when its time was moved or it has gone."""
        machine = self.machine
        due_ns = self.due_ns
        if due_ns < 0:
            return
        if due_ns > machine.events.now_ns:
            machine.events.at_serial(self, due_ns, self.due_serial)
            return
        machine.enter_irq(self.cpu, 0)
        machine.hand_to_worker(self)
        machine.leave_irq()


class Worker(Task):
    """One CPU's high-priority kernel worker (kblockd): runs its work items in order."""

    def __init__(self, machine: SimMachine, cpu: int, pid: int) -> None:
        super().__init__(pid, f"kworker/{cpu}:1H", machine.cgroups.root)
        self.machine: SimMachine = machine
        self.cpu = cpu
        self.first: SimWork | None = None
        self.last: SimWork | None = None
        self.nr_works: i64 = 0

    def add(self, item: SimWork) -> None:
        """Put a work item last."""
        item.is_listed = True
        item.next = None
        tail = self.last
        if tail is None:
            self.first = item
        else:
            tail.next = item
        self.last = item

    def run(self) -> None:
        """Run all items."""
        item = self.first
        while item is not None:
            self.first = item.next
            if self.first is None:
                self.last = None
            item.is_listed = False
            item.work.is_pending = False
            self.nr_works += 1
            if self.machine.local_ns < item.ready_at_ns:
                self.machine.local_ns = item.ready_at_ns
            self.machine.local_ns += self.machine.costs.work_ns
            item.work.run()
            item = self.first
