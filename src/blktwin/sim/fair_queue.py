"""Fair run queues: who has had how much of a CPU, and who is next, by CFS (to 6.5) or EEVDF (from 6.6).

Kernel: kernel/sched/fair.c, v5.10 (CFS) and v6.12 (EEVDF).
Differs: a slice ends when it is used up, not at the next tick. No buddies. EEVDF's delayed dequeue is its outcome only:
who sleeps with negative lag has none once the queue's virtual time has passed it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.machine import Task
from blktwin.sim.topology import GRANULARITY_NS, LATENCY_NS, SLICE_NS, WAKEUP_NS, CpuSpec, scale_factor

NICE_0: Final = 1024
NICE_MIN: Final = -20
NICE_WEIGHTS: Final = (
    *(88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916),
    *(9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277),
    *(1024, 820, 655, 526, 423, 335, 272, 215, 172, 137),
    *(110, 87, 70, 56, 45, 36, 29, 23, 18, 15),
)
"""Weight of nice -20 to 19: a step is a tenth of a CPU against one other task.

Kernel: set_load_weight(), kernel/sched/core.c, v6.12, takes them.
"""
CFS_NR_LATENCY: Final = 8
TICK_NS: Final = 4_000_000


def nice_weight(nice: int) -> int:
    """Return the weight of a nice value."""
    return NICE_WEIGHTS[nice - NICE_MIN]


class FairParams:
    """The scheduler's times in ns, the same for all queues of a machine."""

    def __init__(self, spec: CpuSpec, nr_cpus: int) -> None:
        factor = scale_factor(nr_cpus)
        self.is_eevdf: bool = spec.sched == "eevdf"
        self.slice_ns: i64 = spec.slice_ns or SLICE_NS * factor
        self.latency_ns: i64 = spec.latency_ns or LATENCY_NS * factor
        self.granularity_ns: i64 = spec.granularity_ns or GRANULARITY_NS * factor
        self.wakeup_ns: i64 = spec.wakeup_granularity_ns or WAKEUP_NS * factor


class Entity:
    """A task, or a cgroup's share of one CPU, in a queue.

    Kernel: struct sched_entity, include/linux/sched.h, v6.12.
    """

    def __init__(self, task: Task | None, weight: i64) -> None:
        self.task: Task | None = task
        self.own: FairQueue | None = None
        """A cgroup's queue of its tasks."""
        self.weight: i64 = weight
        self.vruntime: i64 = 0
        self.deadline: i64 = 0
        self.vlag: i64 = 0
        """Virtual time that it was owed when it left its queue."""
        self.protected: i64 = -1
        """The deadline up to which it keeps the CPU against equals (run to parity)."""
        self.ran_ns: i64 = 0
        """Since it was picked."""
        self.queue: FairQueue | None = None
        """Where it stands, or stood last."""
        self.is_on: bool = False
        self.is_new: bool = True
        self.is_delayed: bool = False
        """It sleeps, but stands in its queue until that owes it nothing (fair_ticks.py)."""
        self.next: Entity | None = None
        self.before: Entity | None = None
        self.group: CpuGroup | None = None
        self.util: i64 = 0
        """The task's utilization (pelt.py), and when that was."""
        self.util_at_ns: i64 = 0
        self.util_est: i64 = 0
        """What its utilization usually is when it goes to sleep."""
        self.is_hog: bool = False
        self.nr_preempted: i64 = 0
        """Involuntary context switches."""


class CpuGroup:
    """A cgroup with a CPU weight (cpu.weight, 1..10000, default 100), and its entity on each CPU.

    Kernel: struct task_group and calc_group_shares(), kernel/sched/fair.c, v6.12.
    Differs: one level, so that a group in a group competes with it as an equal; a CPU's share of the weight goes by the
    weights that are runnable now, not by their average.
    """

    def __init__(self, weight: int, nr_cpus: int, params: FairParams) -> None:
        self.shares: i64 = (weight * NICE_0 + 50) // 100
        self.load: i64 = 0
        """Weights of all runnable tasks, on all CPUs."""
        self.parts: list[Entity] = []
        for _ in range(nr_cpus):
            part = Entity(None, self.shares)
            part.own = FairQueue(params)
            self.parts.append(part)


class FairQueue:
    """The runnable entities of one CPU, or of one cgroup there; the running one stays in it."""

    def __init__(self, params: FairParams) -> None:
        self.params: FairParams = params
        self.first: Entity | None = None
        self.last: Entity | None = None
        self.nr: i64 = 0
        self.load: i64 = 0
        self.base: i64 = 0
        """CFS: min_vruntime. EEVDF: a reference close to the average."""
        self.sum: i64 = 0
        """EEVDF: sum of weight * (vruntime - base)."""
        self.curr: Entity | None = None

    # -- virtual time

    def average(self) -> i64:
        """Return the virtual time of the queue: EEVDF's V, CFS's min_vruntime."""
        if self.load == 0:
            return self.base
        return self.base + self.sum // self.load

    def is_eligible(self, se: Entity) -> bool:
        """Say whether EEVDF may pick se: it has had no more than its share.

        Kernel: vruntime_eligible(), kernel/sched/fair.c, v6.12.
        """
        return self.sum >= (se.vruntime - self.base) * self.load

    def move_base(self) -> None:
        """Bring the reference up to date."""
        if self.params.is_eevdf:
            step = self.sum // self.load if self.load > 0 else 0
            self.base += step
            self.sum -= step * self.load
            return
        least = self.leftmost()
        if least is not None and least.vruntime > self.base:
            self.sum -= (least.vruntime - self.base) * self.load
            self.base = least.vruntime

    def leftmost(self) -> Entity | None:
        """Return the entity of the least vruntime, the first of equals."""
        best = self.first
        se = best
        while se is not None:
            assert best is not None
            if se.vruntime < best.vruntime:
                best = se
            se = se.next
        return best

    # -- coming and going

    def enqueue(self, se: Entity) -> None:
        """Take an entity that has woken, is new, or comes from another CPU."""
        self.place(se)
        self.add(se)

    def add(self, se: Entity) -> None:
        """Take an entity where its vruntime stands."""
        se.queue = self
        se.is_on = True
        se.is_new = False
        se.ran_ns = 0
        se.next = None
        se.before = self.last
        if self.last is None:
            self.first = se
        else:
            self.last.next = se
        self.last = se
        self.nr += 1
        self.load += se.weight
        self.sum += se.weight * (se.vruntime - self.base)
        self.move_base()

    def place(self, se: Entity) -> None:
        """Choose the vruntime (and deadline) of an entity that comes.

        Kernel: place_entity(), kernel/sched/fair.c, v5.10 and v6.12.
        """
        params = self.params
        if not params.is_eevdf:
            at = self.base
            if se.is_new:
                se.vruntime = at + self.cfs_slice(se, se.weight) * NICE_0 // se.weight
                return
            home = se.queue
            if home is not None and home is not self:
                se.vruntime += self.base - home.base
            at -= params.latency_ns // 2
            if se.vruntime < at:
                se.vruntime = at
            return
        now = self.average()
        lag: i64 = 0
        if self.nr > 0:
            lag = se.vlag
            if lag < 0 and se.queue is self:
                lag = now - se.vruntime
                if lag > 0:
                    lag = 0
            lag = lag * (self.load + se.weight) // self.load
        share = params.slice_ns * NICE_0 // se.weight
        if se.is_new:
            share //= 2
        se.vruntime = now - lag
        se.deadline = se.vruntime + share
        se.protected = -1

    def dequeue(self, se: Entity) -> None:
        """Let an entity go, and note what it is owed.

        Kernel: update_entity_lag(), kernel/sched/fair.c, v6.12.
        """
        if self.params.is_eevdf:
            lag = self.average() - se.vruntime
            limit = max(2 * self.params.slice_ns, TICK_NS) * NICE_0 // se.weight
            se.vlag = min(max(lag, -limit), limit)
        self.sum -= se.weight * (se.vruntime - self.base)
        self.load -= se.weight
        self.nr -= 1
        se.is_on = False
        if se.before is None:
            self.first = se.next
        else:
            se.before.next = se.next
        if se.next is None:
            self.last = se.before
        else:
            se.next.before = se.before
        se.next = None
        se.before = None
        if self.curr is se:
            self.curr = None
        self.move_base()

    def reweight(self, se: Entity, weight: i64) -> None:
        """Give an entity another weight."""
        if se.is_on:
            self.load += weight - se.weight
            self.sum += (weight - se.weight) * (se.vruntime - self.base)
        se.weight = weight

    # -- running

    def charge(self, se: Entity, ns: i64) -> bool:
        """Book ns on the CPU; say whether se has used up its slice while others wait.

        Kernel: update_curr() and update_deadline(), check_preempt_tick(), kernel/sched/fair.c, v6.12 and v5.10.
        """
        self.run_on(se, ns)
        params = self.params
        if params.is_eevdf:
            self.move_base()
            if se.vruntime < se.deadline:
                return False
            # A stretch of several slices is booked at once when nobody else has wanted the CPU.
            share = max(1, params.slice_ns * NICE_0 // se.weight)
            se.deadline += ((se.vruntime - se.deadline) // share + 1) * share
            return self.nr > 1
        self.move_base()
        return self.nr > 1 and self.cfs_budget(se) <= 0

    def run_on(self, se: Entity, ns: i64) -> None:
        """Move se's vruntime."""
        step = ns * NICE_0 // se.weight
        se.vruntime += step
        se.ran_ns += ns
        self.sum += step * se.weight

    def budget(self, se: Entity) -> i64:
        """Return for how many ns of CPU time se may go on if nobody wakes; -1: for ever."""
        if self.nr <= 1:
            return -1
        left = self.cfs_budget(se)
        if self.params.is_eevdf:
            left = ((se.deadline - se.vruntime) * se.weight + NICE_0 - 1) // NICE_0
        return max(left, 1)

    def cfs_slice(self, se: Entity, more: i64) -> i64:
        """Return CFS's share of a period for se; more: its weight if it is not queued yet.

        Kernel: sched_slice(), kernel/sched/fair.c, v5.10.
        Differs: a task in a group gets its part of the group's own period, not of the group's slice.
        """
        nr = self.nr + (1 if more > 0 else 0)
        period = self.params.latency_ns
        if nr > CFS_NR_LATENCY:
            period = nr * self.params.granularity_ns
        return period * se.weight // (self.load + more)

    def cfs_budget(self, se: Entity) -> i64:
        """Return for how long se may go on under CFS."""
        least = self.leftmost()
        if self.params.is_eevdf or least is None:
            return 0
        ideal = self.cfs_slice(se, 0)
        left = ideal - se.ran_ns
        # It also ends when the one furthest behind has fallen back by a whole slice.
        behind = (ideal - (se.vruntime - least.vruntime)) * se.weight // NICE_0
        minimum = self.params.granularity_ns - se.ran_ns
        if behind < minimum:
            behind = minimum
        return min(left, behind)

    def set_curr(self, se: Entity) -> None:
        """Let se run from now on."""
        self.curr = se
        se.ran_ns = 0
        se.protected = se.deadline

    def pick(self) -> Entity | None:
        """Return who is to run next; the running one stands for itself.

        Kernel: pick_eevdf() and pick_next_entity(), kernel/sched/fair.c, v6.12 and v5.10.
        """
        if not self.params.is_eevdf:
            return self.leftmost()
        curr = self.curr
        if curr is not None and not self.is_eligible(curr):
            curr = None
        if curr is not None and curr.protected == curr.deadline:
            return curr
        best: Entity | None = None
        se = self.first
        while se is not None:
            if se is not self.curr and (best is None or se.deadline < best.deadline) and self.is_eligible(se):
                best = se
            se = se.next
        if best is None or (curr is not None and curr.deadline < best.deadline):
            return curr
        return best

    def preempts(self, woken: Entity, curr: Entity) -> bool:
        """Say whether an entity that has just come takes the CPU from the running one.

        Kernel: check_preempt_wakeup_fair() and wakeup_preempt_entity(), kernel/sched/fair.c, v6.12 and v5.10.
        """
        if self.params.is_eevdf:
            return self.pick() is woken
        return curr.vruntime - woken.vruntime > self.params.wakeup_ns * NICE_0 // woken.weight
