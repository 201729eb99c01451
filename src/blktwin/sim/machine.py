"""The simulated machine: virtual time behind the seam of block/machine.py.

local_ns is the clock of whoever runs now; it starts at the event's time and moves with every charge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.cgroup import Cgroup, CgroupTree
from blktwin.block.machine import BlockingWork, Machine, Task, Timer, Work, WorkQueue
from blktwin.block.tracepoint import Tracepoints
from blktwin.sim.costs import Costs
from blktwin.sim.cpu import Cpu, IdleTask, SimWork, Worker
from blktwin.sim.events import EventQueue
from blktwin.sim.fair import FairCpu
from blktwin.sim.fair_queue import CpuGroup, FairParams
from blktwin.sim.fair_ticks import TickCpu
from blktwin.sim.faults import Faults
from blktwin.sim.hog import Hog
from blktwin.sim.irq import SimTimer, Softirq, TaskStart
from blktwin.sim.placement import Placement
from blktwin.sim.topology import FULL, CpuSpec
from blktwin.sim.workqueue import PoolWorker, WorkerPools

if TYPE_CHECKING:
    from blktwin.sim.trace import CostTrace

KTHREAD_PID: Final = 100


class SimMachine(Machine):
    """CPUs (spec says what kind; None: alike, tasks in order), costs, one event queue, one seeded source of faults."""

    def __init__(
        self,
        trace: Tracepoints,
        *,
        nr_cpus: int,
        hz: int,
        costs: Costs,
        faults: Faults,
        spec: CpuSpec | None = None,
    ) -> None:
        self.cgroups: CgroupTree = CgroupTree()
        idle_tasks = [IdleTask(0, "swapper", self.cgroups.root) for _ in range(nr_cpus)]
        super().__init__(idle_tasks[0], trace, hz, nr_cpus)
        self.events: EventQueue = EventQueue()
        self.costs: Costs = costs
        self.faults: Faults = faults
        self.submit_atomic_ns: i64 = costs.submit_ns + costs.alloc_ns + costs.insert_ns + costs.elevator_ns
        """For how long a submitter could not be preempted when it queues work: since it has its bio."""
        self.submit_atomic_ns += costs.bfq_ns
        self.local_ns: i64 = 0
        self.irq_start_ns: i64 = 0
        self.spec: CpuSpec = CpuSpec() if spec is None else spec
        self.is_fair: bool = self.spec.sched != "fifo"
        self.has_preemption = self.spec.ticks
        self.params: FairParams = FairParams(self.spec, nr_cpus)
        cpus: list[Cpu] = []
        for index in range(nr_cpus):
            idle_tasks[index].cpu = index
            cpu = Cpu(self, index, idle_tasks[index])
            if self.is_fair:
                cpu = FairCpu(self, index, idle_tasks[index], self.params)
            if self.spec.ticks:
                cpu = TickCpu(self, index, idle_tasks[index], self.params)
            worker = Worker(self, index, KTHREAD_PID + index)
            worker.nice = -20
            worker.cpus_allowed = [index]
            cpu.worker = worker
            cpus.append(cpu)
        self.cpus: vec[Cpu] = vec[Cpu](cpus)
        self.irq_cpu: Cpu = self.cpus[0]
        if self.spec.capacity:
            self.cpu_capacity = list(self.spec.capacity)
        self.plain_costs: Costs = costs
        """Those of a CPU of full speed, in force while none runs."""
        self.cost_trace: CostTrace | None = None
        speeds = [self.spec.speed(cpu) for cpu in range(nr_cpus)]
        self.is_uneven: bool = min(speeds) < FULL
        """Some CPU is slower than the costs say."""
        self.cost_tables: list[Costs] = [costs.scaled(speed) for speed in speeds] if self.is_uneven else []
        self.speeds: list[int] = speeds
        self.places_tasks: bool = not self.spec.is_plain()
        self.placement: Placement = Placement(self, self.spec)
        self.has_pelt: bool = self.is_fair and (self.spec.eas or self.placement.is_asymmetric)
        self.deep_idle_ns: i64 = self.spec.deep_idle_ns
        self.cpu_groups: dict[Cgroup, CpuGroup] = {}
        self.pools: WorkerPools = WorkerPools(self, self.spec)

    # -- charges

    def use_costs_of(self, cpu_index: int) -> None:
        """Charge what a CPU's speed makes of the costs, until use_plain_costs()."""
        table = self.cost_tables[cpu_index]
        self.costs = table
        trace = self.cost_trace
        if trace is not None:
            trace.costs = table

    def use_plain_costs(self) -> None:
        """Charge for a CPU of full speed."""
        self.costs = self.plain_costs
        trace = self.cost_trace
        if trace is not None:
            trace.costs = self.costs

    def exit_idle_ns(self, cpu: Cpu, at_ns: i64) -> i64:
        """Return how long cpu, idle since its last stretch, takes to run again."""
        if self.deep_idle_ns > 0 and at_ns - cpu.free_at_ns >= self.spec.deep_after_ns:
            return self.costs.idle_exit_ns + self.deep_idle_ns
        return self.costs.idle_exit_ns

    def charge(self, ns: i64) -> None:
        """Spend CPU time of whoever runs now: ns on a CPU of full speed."""
        if self.is_uneven:
            ns = ns * FULL // self.speeds[self.current.cpu]
        self.local_ns += ns

    def charge_switch(self, task: Task) -> None:
        """Spend the switch to task; deeper cgroups cost more."""
        costs = self.costs
        self.local_ns += costs.switch_ns + costs.cgroup_level_ns * task.cgroup.depth

    def enter_irq(self, cpu_index: int, cost_ns: i64) -> None:
        """Begin an interrupt on a CPU at the time of the running event."""
        cpu = self.cpus[cpu_index]
        start = self.events.now_ns
        if cpu.irq_free_at_ns > start:
            start = cpu.irq_free_at_ns
        self.irq_cpu = cpu
        self.irq_start_ns = start
        if self.is_uneven:
            self.use_costs_of(cpu_index)
            cost_ns = cost_ns * FULL // self.speeds[cpu_index]
        self.local_ns = start + cost_ns
        # A softirq that its interrupt raised begins where that ended: the CPU has not gone idle between.
        if cpu.free_at_ns < start and cpu.nr_runnable == 0:
            self.local_ns += self.exit_idle_ns(cpu, start)
            cpu.last = None
        cpu.is_running = True
        self.current = cpu.idle_task

    def leave_irq(self) -> None:
        """End the interrupt; the CPU's stretch grows by what it cost."""
        cpu = self.irq_cpu
        end = self.local_ns
        cost = end - self.irq_start_ns
        cpu.irq_free_at_ns = end
        cpu.busy_ns += cost
        if cpu.free_at_ns > self.irq_start_ns:
            cpu.free_at_ns += cost
        else:
            cpu.free_at_ns = end
        cpu.is_running = False
        if self.is_uneven:
            self.use_plain_costs()
        cpu.look_again()

    # -- the seam

    def now_ns(self) -> i64:
        """Return the local time."""
        return self.local_ns

    def arm_timer(self, timer: Timer, expires_ns: i64) -> None:
        """Arm or move a timer; an injected fault may make it late."""
        slot = timer.slot
        if slot is None:
            entry = SimTimer(self, timer, self.current.cpu)
            timer.slot = entry
        else:
            assert isinstance(slot, SimTimer)
            entry = slot
        if self.faults.is_active:
            expires_ns += self.faults.timer_delay_ns()
        if expires_ns < self.local_ns:
            # Never before it was armed: the running code is ahead of the event queue.
            expires_ns = self.local_ns
        entry.expires_ns = expires_ns
        entry.cpu = self.current.cpu
        entry.arm_serial = self.events.next_serial()
        if entry.is_queued:
            if entry.time_ns < expires_ns:
                return
            self.events.remove(entry)
        self.events.at_serial(entry, expires_ns, entry.arm_serial)

    def cancel_timer(self, timer: Timer) -> bool:
        """Disarm a timer; its entry stays queued and does nothing."""
        slot = timer.slot
        if slot is None:
            return False
        assert isinstance(slot, SimTimer)
        was_armed = slot.expires_ns >= 0
        slot.expires_ns = -1
        return was_armed

    def queue_work(self, work: Work, delay_ns: i64, cpu: int) -> None:
        """Hand work to a CPU's worker now, or after delay_ns."""
        slot = work.slot
        if slot is None:
            item = SimWork(self, work)
            work.slot = item
        else:
            assert isinstance(slot, SimWork)
            item = slot
        if self.faults.is_active:
            delay_ns += self.faults.work_delay_ns()
        if work.is_pending:
            if item.is_listed or item.due_ns <= self.local_ns + delay_ns:
                return
        work.is_pending = True
        item.cpu = self.current.cpu if cpu < 0 else cpu
        self.local_ns += self.costs.queue_work_ns
        if delay_ns > 0:
            self.delay_work(item, self.local_ns + delay_ns)
        else:
            self.hand_to_worker(item)

    def delay_work(self, item: SimWork, due_ns: i64) -> None:
        """Hand item over at due_ns; what is queued for an earlier time moves when that has come (as in arm_timer())."""
        item.due_ns = due_ns
        item.due_serial = self.events.next_serial()
        if item.is_queued:
            if item.time_ns < due_ns:
                return
            self.events.remove(item)
        self.events.at_serial(item, due_ns, item.due_serial)

    def postpone_work(self, work: Work, delay_ns: i64, cpu: int) -> None:
        """Take pending work back from its timer, and queue it with the new delay."""
        item = work.slot
        if work.is_pending and isinstance(item, SimWork) and not item.is_listed:
            work.is_pending = False
        self.queue_work(work, delay_ns, cpu)

    def hand_to_worker(self, item: SimWork) -> None:
        """Give a work item to its CPU's worker and wake that."""
        worker = self.cpus[item.cpu].worker
        assert worker is not None
        item.due_ns = -1
        item.ready_at_ns = self.local_ns
        worker.add(item)
        if not worker.is_queued and self.current is not worker:
            self.make_runnable(worker, self.cpus[item.cpu], True)

    def alloc_workqueue(self, name: str, max_active: int) -> WorkQueue:
        """Return a new unbound workqueue; all of them share one pool."""
        return WorkQueue(name, max_active or self.spec.worker_max_active)

    def queue_on(self, wq: WorkQueue, work: BlockingWork) -> bool:
        """Give work to the pool, unless it is pending."""
        if work.is_pending:
            return False
        work.is_pending = True
        self.local_ns += self.costs.queue_work_ns
        self.pools.queue(wq, work, self.current.cpu)
        return True

    def cond_resched(self, task: Task) -> bool:
        """Say whether task must return from its step, to go on when its CPU has caught up: something is due before."""
        cpu = self.cpus[task.cpu]
        if not self.events.is_due(self.local_ns) and not cpu.has_to_choose(self.local_ns):
            return False
        task.runnable_at_ns = self.local_ns
        cpu.requeue(task)
        return True

    def is_to_come(self, task: Task, time_ns: i64) -> bool:
        """Let task sleep until time_ns unless that has come."""
        if time_ns <= self.local_ns:
            return False
        # Until then its CPU is idle, and who lets it go on has to tell that.
        task.runnable_at_ns = time_ns + self.costs.remote_wake_ns
        self.cpus[task.cpu].push(task, False)
        return True

    def raise_softirq(self, work: Work, cpu: int) -> None:
        """Run work in an interrupt on cpu at the local time."""
        if work.is_pending:
            return
        work.is_pending = True
        slot = work.slot
        if slot is None:
            event = Softirq(self, work, cpu)
            work.slot = event
        else:
            assert isinstance(slot, Softirq)
            event = slot
            event.cpu = cpu
        self.events.at(event, self.local_ns)

    def spin(self, ns: i64) -> None:
        """Charge user time."""
        self.local_ns += ns
        self.current.utime_ns += ns

    def wake_task(self, task: Task) -> None:
        """Make task runnable on its last CPU if that is idle, else on an idle one, else behind the others.

        One that is still on its way to sleep stays where it is.
        """
        if task.is_queued:
            return
        if self.places_tasks:
            self.place(task, self.costs.task_wake_ns, 0)
            return
        cpu = self.cpus[task.cpu]
        if cpu.is_running and cpu.nr_runnable == 0 and self.has_room(cpu):
            # An interrupt on its own CPU, which looks for work when that ends.
            self.local_ns += self.costs.wake_ns
            task.runnable_at_ns = self.local_ns
            cpu.push(task, False)
            return
        if self.nr_cpus > 1 and task.ran_until_ns <= self.local_ns and not self.has_room(cpu):
            # The waker's own CPU is left out below, but not here: the waker sleeps soon.
            if not (cpu.is_running and cpu.nr_runnable == 0 and self.current is not cpu.idle_task):
                for other in self.cpus:
                    if self.has_room(other):
                        cpu = other
                        break
        self.make_runnable(task, cpu, False)

    def end_spin(self, task: Task) -> None:
        """Let a task go on that has waited without sleeping: it has its CPU, unless others have come."""
        if task.is_queued:
            return
        cpu = self.cpus[task.cpu]
        now_ns = self.local_ns
        if cpu.last is task and cpu.nr_runnable == 0 and not cpu.is_running and cpu.free_at_ns < now_ns:
            cpu.busy_ns += now_ns - cpu.free_at_ns
            cpu.free_at_ns = now_ns
        task.runnable_at_ns = now_ns
        cpu.push(task, True)
        if not cpu.is_running:
            cpu.look_at(now_ns)

    def place(self, task: Task, delay_ns: i64, from_ns: i64) -> None:
        """Make task runnable where the placement says, from from_ns on.

        delay_ns: until it runs on an idle CPU, beyond idle_exit.
        """
        cpu = self.placement.choose(task)
        if not self.has_room(cpu):
            delay_ns = 0
        elif not cpu.is_running:
            delay_ns += self.costs.remote_wake_ns
        self.local_ns += self.costs.wake_ns
        task.runnable_at_ns = max(self.local_ns, from_ns) + delay_ns
        cpu.push(task, False)
        if not cpu.is_running:
            cpu.look_at(task.runnable_at_ns)

    def has_room(self, cpu: Cpu) -> bool:
        """Say whether cpu runs nothing, or nothing but the interrupt that is running now."""
        if not cpu.is_running:
            return cpu.is_idle(self.local_ns)
        return cpu.nr_runnable == 0 and self.current is cpu.idle_task and cpu.free_at_ns <= self.irq_start_ns

    def make_runnable(self, task: Task, cpu: Cpu, at_head: bool) -> None:
        """Queue task on cpu, and let the CPU look for work when it is free."""
        costs = self.costs
        self.local_ns += costs.wake_ns
        task.runnable_at_ns = self.local_ns
        if costs.remote_wake_ns > 0 and cpu.is_idle(self.local_ns):
            task.runnable_at_ns += costs.remote_wake_ns
        cpu.push(task, at_head)
        if not cpu.is_running:
            cpu.look_at(task.runnable_at_ns)

    # -- running

    def start_task(self, task: Task, cpu_index: int, at_ns: i64) -> None:
        """Let a new task run first at at_ns, outside any event."""
        if at_ns > self.events.now_ns:
            self.events.at(TaskStart(self, task, cpu_index), at_ns)
            return
        cpu = self.cpus[cpu_index]
        self.local_ns = self.events.now_ns
        self.current = cpu.idle_task
        task.cpu = cpu_index
        task.runnable_at_ns = self.local_ns
        cpu.push(task, False)
        cpu.look_at(self.local_ns)

    def start_hog(self, hog: Hog, at_ns: i64) -> None:
        """Let a hog run from at_ns on, on the CPU it may use that has the fewest hogs."""
        assert self.is_fair, "a hog needs a host with sched cfs or eevdf"
        self.start_task(hog, self.placement.home_of_hog(hog), at_ns)

    def cpu_group_of(self, task: Task) -> CpuGroup | None:
        """Return the nearest cgroup above task that has a CPU weight; kernel threads belong to the root."""
        if not self.cpu_groups or isinstance(task, (PoolWorker, Worker)):
            return None
        cgroup: Cgroup | None = task.cgroup
        while cgroup is not None:
            group = self.cpu_groups.get(cgroup)
            if group is not None:
                return group
            cgroup = cgroup.parent
        return None

    def set_cpu_weight(self, cgroup: Cgroup, weight: int) -> None:
        """Write a cgroup's cpu.weight (1..10000), before its tasks first run; it counts with sched cfs or eevdf."""
        self.cpu_groups[cgroup] = CpuGroup(weight, self.nr_cpus, self.params)

    def settle(self, end_ns: i64) -> None:
        """Book what runs up to end_ns, the end of the run, so that CPU times can be read."""
        for cpu in self.cpus:
            cpu.settle(end_ns)

    def run(self, until_ns: i64, max_events: i64) -> i64:
        """Fire events up to until_ns, at most max_events; return how many fired."""
        return self.events.run(until_ns, max_events)
