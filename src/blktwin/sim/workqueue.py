"""Unbound workqueues: work items that may sleep, and the pool of kernel workers that run them.

A worker of an unbound pool is never counted as running, so every queued item wakes an idle worker, the one that went
idle last; with none idle a new one is made. An item never runs twice at once: queued while it runs, it runs again.
Kernel: __queue_work(), insert_work(), worker_thread(), kernel/workqueue.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.machine import BlockingWork, Task, WorkQueue

if TYPE_CHECKING:
    from blktwin.sim.machine import SimMachine

KWORKER_PID: Final = 400_000
WQ_DFL_ACTIVE: Final = 1024
"""What max_active 0 means (since 6.13; 256 before)."""


class PoolWork:
    """A work item's place in its pool."""

    def __init__(self, work: BlockingWork, wq: WorkQueue) -> None:
        self.work: BlockingWork = work
        self.wq: WorkQueue = wq
        self.next: PoolWork | None = None
        self.queued_at_ns: i64 = 0
        self.runner: PoolWorker | None = None
        """The worker that runs it now."""


class PoolWorker(Task):
    """One kernel worker of an unbound pool."""

    def __init__(self, pool: WorkerPool, number: int) -> None:
        super().__init__(KWORKER_PID + number, f"kworker/u{pool.index}:{number}", pool.machine.cgroups.root)
        self.pool: WorkerPool = pool
        self.item: PoolWork | None = None
        self.first: PoolWork | None = None
        """Items that were queued again while this worker ran them."""
        self.idle_below: PoolWorker | None = None
        """The one that went idle before it."""
        self.is_idle: bool = False

    def run(self) -> None:
        """Run items until there are none; a spurious wake-up while an item sleeps goes to the item."""
        pool = self.pool
        machine = pool.machine
        while True:
            item = self.item
            if item is None:
                item = self.first
                if item is not None:
                    self.first = item.next
                    item.next = None
                else:
                    item = pool.take()
                if item is None:
                    pool.put_idle(self)
                    return
                self.item = item
                item.runner = self
                item.work.is_pending = False
                machine.charge(machine.costs.work_ns)
                machine.trace.work_begin(self, item.wq.name, machine.local_ns - item.queued_at_ns)
            if not item.work.advance(self):
                return
            machine.trace.work_end(self)
            item.runner = None
            self.item = None


class WorkerPool:
    """Workers with their idle list and the items that wait for one."""

    def __init__(self, machine: SimMachine, index: int) -> None:
        self.machine: SimMachine = machine
        self.index: int = index
        self.head: PoolWork | None = None
        self.tail: PoolWork | None = None
        self.idle: PoolWorker | None = None
        """The worker that went idle last."""
        self.workers: list[PoolWorker] = []

    def queue(self, item: PoolWork) -> None:
        """Take an item, and wake a worker for it."""
        machine = self.machine
        item.queued_at_ns = machine.local_ns
        runner = item.runner
        if runner is not None:
            item.next = runner.first
            runner.first = item
            return
        tail = self.tail
        if tail is None:
            self.head = item
        else:
            tail.next = item
        self.tail = item
        worker = self.idle
        if worker is None:
            worker = self.create()
        else:
            self.idle = worker.idle_below
            worker.idle_below = None
            worker.is_idle = False
        machine.wake_task(worker)

    def create(self) -> PoolWorker:
        """Make a worker on this CPU."""
        worker = PoolWorker(self, len(self.workers))
        worker.cpu = self.machine.current.cpu
        self.workers.append(worker)
        return worker

    def take(self) -> PoolWork | None:
        """Take the first waiting item."""
        item = self.head
        if item is None:
            return None
        self.head = item.next
        if self.head is None:
            self.tail = None
        item.next = None
        return item

    def put_idle(self, worker: PoolWorker) -> None:
        """Let a worker rest."""
        if worker.is_idle:
            return
        worker.is_idle = True
        worker.idle_below = self.idle
        self.idle = worker
