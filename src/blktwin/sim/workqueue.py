"""Unbound workqueues: work items that may sleep, and the pools of kernel workers that run them.

A pool serves a pod of CPUs (CpuSpec.worker_scope). An item that is queued wakes the worker that went idle last; the
worker that starts on an item wakes the next while items wait. With no idle worker left, the one that has just woken
makes a new one first.
Kernel: __queue_work(), kick_pool(), worker_thread(), process_one_work(), kernel/workqueue.c, v6.12.
Differs: max_active is not divided among NUMA nodes. Idle workers beyond need go when the pool next does something, not
at 300 s sharp. Making a worker takes worker_new_ns of time and no CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.machine import BlockingWork, Task, WorkQueue
from blktwin.sim.events import Event
from blktwin.sim.topology import CpuSpec, pods_of

if TYPE_CHECKING:
    from blktwin.sim.machine import SimMachine

KWORKER_PID: Final = 400_000
IDLE_WORKER_NS: Final = 300_000_000_000
BUSY_RATIO: Final = 4
"""Idle workers beyond 2 are surplus when there is one for every so many busy ones."""
HISTOGRAM: Final = 64
"""More runnable workers than that count as so many."""


class PoolWork:
    """A work item's place: waiting for its workqueue's max_active, or in its pool."""

    def __init__(self, work: BlockingWork, state: WqState) -> None:
        self.work: BlockingWork = work
        self.state: WqState = state
        self.pool: WorkerPool | None = None
        self.next: PoolWork | None = None
        self.queued_at_ns: i64 = 0
        self.due_ns: i64 = 0
        """When it may run: who queued it, let it in or ran it before may have run ahead."""
        self.runner: PoolWorker | None = None
        """The worker that runs it now."""
        self.busy_until_ns: i64 = 0
        """When its last run ended, on the clock of its worker, which may have run ahead."""


class WorkList:
    """Work items in order."""

    def __init__(self) -> None:
        self.head: PoolWork | None = None
        self.tail: PoolWork | None = None

    def append(self, item: PoolWork) -> None:
        """Put an item last: behind all that are due no later."""
        tail = self.tail
        if tail is None:
            item.next = None
            self.head = item
            self.tail = item
        elif tail.due_ns <= item.due_ns:
            item.next = None
            tail.next = item
            self.tail = item
        else:
            before: PoolWork | None = None
            other = self.head
            while other is not None and other.due_ns <= item.due_ns:
                before = other
                other = other.next
            item.next = other
            if before is None:
                self.head = item
            else:
                before.next = item

    def take(self) -> PoolWork | None:
        """Take the first item."""
        item = self.head
        if item is not None:
            self.head = item.next
            if self.head is None:
                self.tail = None
            item.next = None
        return item


class WqState:
    """A workqueue's active items, and those that wait because there are max_active.

    Kernel: struct pool_workqueue, kernel/workqueue.c, v6.12.
    """

    def __init__(self, wq: WorkQueue) -> None:
        self.wq: WorkQueue = wq
        self.nr_active: i64 = 0
        self.most_active: i64 = 0
        self.nr_held: i64 = 0
        """Items that had to wait for others to end."""
        self.inactive: WorkList = WorkList()


class PoolWorker(Task):
    """One kernel worker of an unbound pool.

    busy time: stime_ns. wait_ns: for a CPU, since it was woken or had to yield.
    """

    def __init__(self, pool: WorkerPool, number: int) -> None:
        machine = pool.machine
        super().__init__(
            KWORKER_PID + 1000 * pool.index + number, f"kworker/u{pool.index}:{number}", machine.cgroups.root
        )
        self.nice = machine.spec.worker_nice
        self.cpus_allowed = pool.allowed
        self.pool: WorkerPool = pool
        self.item: PoolWork | None = None
        self.again: WorkList = WorkList()
        """Items that were queued again while this worker runs them."""
        self.is_idle: bool = True
        self.idle_since_ns: i64 = 0
        self.ending: WqState | None = None
        """The workqueue of the item that has run, until that counts as ended."""
        self.may_start: bool = False
        """Since it was woken it has seen to it that an idle worker is left."""
        self.is_counted: bool = False
        """It is among the pool's runnable ones."""
        self.wait_ns: i64 = 0
        self.nr_items: i64 = 0

    def run(self) -> None:
        """Run items until there are none; a spurious wake-up while an item sleeps goes to the item."""
        pool = self.pool
        machine = pool.machine
        waited_ns = machine.local_ns - self.runnable_at_ns
        if waited_ns > 0:
            self.wait_ns += waited_ns
        # What it slept for inside an item has woken it, not the pool.
        pool.count(self, True)
        if pool.manager is self and pool.is_born:
            pool.manager = None
        if pool.manager is not self:
            self.work()
        if not self.is_queued:
            pool.count(self, False)

    def work(self) -> None:
        """Go on with the item at hand, then with others."""
        pool = self.pool
        machine = pool.machine
        while True:
            item = self.item
            if item is None:
                ending = self.ending
                if ending is not None:
                    self.ending = None
                    pool.pools.ended(ending)
                item = pool.next_item(self)
                if item is None:
                    return
                self.item = item
                item.runner = self
                item.work.is_pending = False
                self.nr_items += 1
                pool.kick()
                machine.local_ns += machine.costs.work_ns
                machine.trace.work_begin(self, item.state.wq.name, machine.local_ns - item.queued_at_ns)
            if not item.work.advance(self):
                return
            machine.trace.work_end(self)
            self.item = None
            self.ending = item.state
            item.runner = None
            item.busy_until_ns = machine.local_ns
            # What others do up to now comes first: they may take the next item.
            if machine.cond_resched(self):
                return


class WorkerBorn(Event):
    """A new worker, on its way."""

    def __init__(self, pool: WorkerPool, manager: PoolWorker) -> None:
        super().__init__()
        self.pool: WorkerPool = pool
        self.manager: PoolWorker = manager

    def fire(self) -> None:
        """Let the new worker and the one that has made it run."""
        machine = self.pool.machine
        machine.enter_irq(self.manager.cpu, 0)
        self.pool.born(self.manager)
        machine.leave_irq()


class WorkerPool:
    """The workers of one pod, with the items that wait for one.

    Kernel: struct worker_pool, kernel/workqueue.c, v6.12.
    """

    def __init__(self, pools: WorkerPools, index: int, cpus: list[int], allowed: list[int] | None) -> None:
        self.pools: WorkerPools = pools
        self.machine: SimMachine = pools.machine
        self.index: int = index
        self.cpus: list[int] = cpus
        """Where its workers are put when they wake elsewhere (they may run on all that are allowed)."""
        self.allowed: list[int] | None = allowed
        self.next_cpu: int = 0
        self.waiting: WorkList = WorkList()
        self.idle: list[PoolWorker] = []
        """The last one went idle last; one that was woken stays here until it runs."""
        self.workers: list[PoolWorker] = []
        """All that live, in the order of their making."""
        self.nr_made: int = 0
        self.nr_culled: int = 0
        self.nr_repatriated: int = 0
        self.manager: PoolWorker | None = None
        """The worker that makes another, until it runs again."""
        self.is_born: bool = False
        self.nr_runnable: i64 = 0
        self.runnable_ns: vec[i64] = vec[i64]([0] * (HISTOGRAM + 1))
        """For how long so many of its workers ran or waited for a CPU."""
        self.counted_at_ns: i64 = 0
        self.lock_queue_ns: i64 = 0
        """What those who hold its lock or wait for it still need, as of lock_at_ns."""
        self.lock_at_ns: i64 = 0
        self.make(cpus[0])

    # -- items

    def lock(self) -> None:
        """Charge one hold of the pool's lock, and the wait for those who came before."""
        machine = self.machine
        hold_ns = machine.costs.pool_lock_ns
        if hold_ns == 0:
            return
        # Who runs now may be behind on his clock: he finds the queue as the last one left it.
        passed_ns = machine.local_ns - self.lock_at_ns
        if passed_ns > 0:
            self.lock_at_ns = machine.local_ns
            self.lock_queue_ns = max(0, self.lock_queue_ns - passed_ns)
        self.lock_queue_ns += hold_ns
        machine.charge(self.lock_queue_ns)

    def next_item(self, worker: PoolWorker) -> PoolWork | None:
        """Return the next item for a worker that has none; None lets it sleep.

        Kernel: worker_thread() and assign_work(), kernel/workqueue.c, v6.12.
        """
        self.lock()
        while True:
            if worker.is_idle:
                self.idle.remove(worker)
                worker.is_idle = False
                worker.may_start = False
            item = worker.again.take()
            if item is not None:
                return item
            if not self.is_due():
                self.rest(worker)
                self.kick()
                return None
            if not worker.may_start:
                if not self.idle and self.manager is None and self.make_later(worker):
                    return None
                worker.may_start = True
            item = self.waiting.take()
            assert item is not None
            runner = item.runner
            if runner is None:
                return item
            # It runs elsewhere: that worker runs it once more.
            runner.again.append(item)

    def is_due(self) -> bool:
        """Say whether an item waits that may run by now."""
        item = self.waiting.head
        return item is not None and item.due_ns <= self.machine.local_ns

    def insert(self, item: PoolWork) -> None:
        """Take an item, and wake a worker for it."""
        # Queued while it runs it is run again when that has ended.
        item.due_ns = max(self.machine.local_ns, item.due_ns, item.busy_until_ns)
        self.waiting.append(item)
        self.kick()

    def kick(self) -> None:
        """Wake the worker that went idle last, if items wait.

        Kernel: kick_pool(), kernel/workqueue.c, v6.12.
        """
        item = self.waiting.head
        if item is None or not self.idle:
            return
        worker = self.idle[len(self.idle) - 1]
        if worker.is_queued:
            return
        if worker.cpu not in self.cpus and worker.ran_until_ns <= self.machine.local_ns:
            worker.cpu = self.cpus[self.next_cpu]
            self.next_cpu = (self.next_cpu + 1) % len(self.cpus)
            self.nr_repatriated += 1
        self.wake(worker, item.due_ns)

    def wake(self, worker: PoolWorker, from_ns: i64) -> None:
        """Make a worker runnable, not before from_ns."""
        machine = self.machine
        self.count(worker, True)
        machine.place(worker, machine.costs.worker_wake_ns, from_ns)

    # -- workers

    def rest(self, worker: PoolWorker) -> None:
        """Let a worker go idle, and surplus ones go.

        Kernel: worker_enter_idle() and idle_worker_timeout(), kernel/workqueue.c, v6.12.
        """
        worker.is_idle = True
        now_ns = self.machine.local_ns
        worker.idle_since_ns = now_ns
        self.idle.append(worker)
        while self.idle[0].idle_since_ns + IDLE_WORKER_NS <= now_ns and not self.idle[0].is_queued:
            nr_idle = len(self.idle)
            if nr_idle <= 2 or (nr_idle - 2) * BUSY_RATIO < len(self.workers) - nr_idle:
                return
            self.workers.remove(self.idle.pop(0))
            self.nr_culled += 1

    def make(self, cpu: int) -> PoolWorker:
        """Add an idle worker, on cpu if that is in the pod."""
        worker = PoolWorker(self, self.nr_made)
        self.nr_made += 1
        worker.cpu = cpu if cpu in self.cpus else self.cpus[0]
        worker.idle_since_ns = self.machine.local_ns
        self.workers.append(worker)
        self.idle.append(worker)
        return worker

    def make_later(self, manager: PoolWorker) -> bool:
        """Make a worker; True when manager sleeps until it is there.

        Kernel: manage_workers() and create_worker(), kernel/workqueue.c, v6.12.
        """
        delay_ns = self.machine.costs.worker_new_ns
        if delay_ns == 0:
            self.make(manager.cpu)
            return False
        self.manager = manager
        self.is_born = False
        self.machine.events.at(WorkerBorn(self, manager), self.machine.local_ns + delay_ns)
        return True

    def born(self, manager: PoolWorker) -> None:
        """See a new worker begin: it looks for items itself."""
        self.is_born = True
        worker = self.make(manager.cpu)
        self.wake(manager, 0)
        self.wake(worker, 0)

    def count(self, worker: PoolWorker, is_runnable: bool) -> None:
        """Count a worker in or out of those that run or wait for a CPU."""
        if worker.is_counted == is_runnable:
            return
        now_ns = self.machine.local_ns
        if now_ns > self.counted_at_ns:
            self.runnable_ns[min(self.nr_runnable, HISTOGRAM)] += now_ns - self.counted_at_ns
            self.counted_at_ns = now_ns
        worker.is_counted = is_runnable
        self.nr_runnable += 1 if is_runnable else -1


class WorkerPools:
    """All unbound pools of a machine, made when the first item is queued: one for each pod."""

    def __init__(self, machine: SimMachine, spec: CpuSpec) -> None:
        self.machine: SimMachine = machine
        self.spec: CpuSpec = spec
        self.pools: list[WorkerPool] = []
        self.pool_of: list[int] = []

    def build(self) -> None:
        """Make the pools; the machine's cache domains must be known by now."""
        spec = self.spec
        machine = self.machine
        mask = spec.worker_cpus
        allowed: list[int] | None = list(mask) if mask else None
        self.pool_of = [0] * machine.nr_cpus
        for index, pod in enumerate(pods_of(spec, machine.nr_cpus, machine.cpus_per_cache)):
            cpus = [cpu for cpu in pod if cpu in mask] if mask else pod
            self.pools.append(WorkerPool(self, index, cpus or list(mask), allowed))
            for cpu in pod:
                self.pool_of[cpu] = index

    def queue(self, wq: WorkQueue, work: BlockingWork, cpu: int) -> None:
        """Take work that cpu queues."""
        if not self.pools:
            self.build()
        state = self.state_of(wq)
        slot = work.slot
        if slot is None:
            item = PoolWork(work, state)
            work.slot = item
        else:
            assert isinstance(slot, PoolWork)
            item = slot
        runner = item.runner
        # An item that runs stays with its pool: it never runs twice at once.
        pool = self.pools[self.pool_of[cpu]] if runner is None else runner.pool
        item.pool = pool
        pool.lock()
        item.queued_at_ns = self.machine.local_ns
        item.due_ns = item.queued_at_ns
        if state.nr_active >= wq.max_active:
            state.nr_held += 1
            state.inactive.append(item)
            return
        self.activate(state, item)

    def state_of(self, wq: WorkQueue) -> WqState:
        """Return what is kept of a workqueue."""
        slot = wq.slot
        if slot is None:
            state = WqState(wq)
            wq.slot = state
            return state
        assert isinstance(slot, WqState)
        return slot

    def activate(self, state: WqState, item: PoolWork) -> None:
        """Let an item's pool have it."""
        state.nr_active += 1
        if state.nr_active > state.most_active:
            state.most_active = state.nr_active
        pool = item.pool
        assert pool is not None
        pool.insert(item)

    def ended(self, state: WqState) -> None:
        """Count an item's end, and let the next one of its workqueue in.

        Kernel: pwq_dec_nr_active(), kernel/workqueue.c, v6.12.
        """
        state.nr_active -= 1
        item = state.inactive.take()
        if item is not None:
            self.activate(state, item)
