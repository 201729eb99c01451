"""Where a woken task runs: an idle CPU that shares the cache, or the CPU that costs the least energy.

Kernel: select_task_rq_fair(), select_idle_sibling(), find_energy_efficient_cpu(), kernel/sched/fair.c, v6.12.
Differs: a CPU's utilization is what has run there (no util_est of what is queued). The energy model is a formula: a
performance domain is the CPUs of one capacity; energy per work grows with the square of a voltage that rises with the
domain's highest utilization, and with the capacity. Boosted tasks (uclamp_min) look for an idle CPU that is large
enough, as with Android's prefer-idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.machine import Task
from blktwin.sim.cpu import Cpu
from blktwin.sim.fair import MIGRATION_NS, FairCpu, entity_of
from blktwin.sim.fair_queue import Entity
from blktwin.sim.pelt import LEVEL_BITS, average
from blktwin.sim.topology import FULL, CpuSpec
from blktwin.sim.workqueue import PoolWorker

if TYPE_CHECKING:
    from blktwin.sim.machine import SimMachine

FITS: Final = 1280
"""A task fits a CPU up to 80 %: util * 1280 < capacity * 1024."""
VOLTAGE_LOW: Final = 600
"""Voltage at the lowest frequency, per mille of that at the highest."""
BASE_POWER: Final = 256
"""Energy per work of a CPU of no capacity, against 1024 of the fastest."""


class Placement:
    """Chooses CPUs for woken tasks."""

    def __init__(self, machine: SimMachine, spec: CpuSpec) -> None:
        self.machine: SimMachine = machine
        self.eas: bool = spec.eas
        self.gate: bool = spec.overutilized_gate
        self.uclamp_min: i64 = spec.uclamp_min
        nr = machine.nr_cpus
        self.capacity: list[int] = list(spec.capacity) or [FULL] * nr
        self.speed: list[int] = [spec.speed(cpu) for cpu in range(nr)]
        self.is_asymmetric: bool = len(set(self.capacity)) > 1
        self.util: list[int] = [0] * nr
        """Each CPU's utilization (pelt.py) at util_at."""
        self.util_at: list[int] = [0] * nr
        self.domains: list[list[int]] = [
            [cpu for cpu in range(nr) if self.capacity[cpu] == size] for size in sorted(set(self.capacity))
        ]
        self.nr_packed: i64 = 0
        """Wake-ups that energy-aware placement decided, and those that found it switched off."""
        self.nr_gated: i64 = 0
        self.nr_migrated: i64 = 0
        self.hogs: list[int] = [0] * nr

    def home_of_hog(self, hog: Task) -> int:
        """Return the CPU with the fewest hogs, of those that it may use."""
        best = -1
        for index in hog.cpus_allowed or range(len(self.hogs)):
            if best < 0 or self.hogs[index] < self.hogs[best]:
                best = index
        self.hogs[best] += 1
        return best

    def choose(self, task: Task) -> Cpu:
        """Return the CPU on which task, which wakes now, is to run."""
        machine = self.machine
        previous = machine.cpus[task.cpu]
        allowed = task.cpus_allowed
        is_allowed = allowed is None or task.cpu in allowed
        if machine.current is task or task.ran_until_ns > machine.local_ns:
            # Still on its way to sleep.
            return previous
        boost = self.boost_of(task)
        if self.eas and boost == 0:
            if not self.gate or not self.is_overutilized():
                self.nr_packed += 1
                return machine.cpus[self.least_energy(task, is_allowed)]
            self.nr_gated += 1
        return self.idle_sibling(task, previous, is_allowed, boost)

    def boost_of(self, task: Task) -> i64:
        """Return the capacity that task must have; kernel workers are never boosted."""
        return 0 if isinstance(task, PoolWorker) else self.uclamp_min

    # -- an idle CPU

    def idle_sibling(self, task: Task, previous: Cpu, is_allowed: bool, boost: i64) -> Cpu:
        """Return the previous CPU if it is idle, another idle one in its cache domain, or in the waker's."""
        machine = self.machine
        need = boost
        if self.is_asymmetric:
            need = max(need, self.task_util(task) * FITS // FULL)
        if is_allowed and self.is_free(previous, need):
            return previous
        found = self.idle_near(task, previous.index, need)
        if found < 0:
            waker = machine.current.cpu
            if not machine.shares_cache(waker, previous.index):
                found = self.idle_near(task, waker, need)
        if found < 0 and need > 0:
            found = self.idle_near(task, previous.index, 0) if boost == 0 else -1
        if found >= 0:
            return machine.cpus[found]
        if is_allowed and self.capacity[previous.index] >= boost:
            return previous
        return machine.cpus[self.least_loaded(task, boost)]

    def is_free(self, cpu: Cpu, need: i64) -> bool:
        """Say whether cpu is idle and of the capacity needed."""
        return self.capacity[cpu.index] >= need and self.machine.has_room(cpu)

    def idle_near(self, task: Task, at: int, need: i64) -> int:
        """Return the first idle CPU after `at` in its cache domain, -1 if there is none."""
        machine = self.machine
        size = machine.cpus_per_cache
        first = at // size * size
        nr = min(size, machine.nr_cpus - first)
        allowed = task.cpus_allowed
        for step in range(1, nr + 1):
            index = first + (at - first + step) % nr
            if (allowed is None or index in allowed) and self.is_free(machine.cpus[index], need):
                return index
        return -1

    def least_loaded(self, task: Task, boost: i64) -> int:
        """Return the allowed CPU with the fewest tasks; of those that are large enough, if any is."""
        best = -1
        best_nr: i64 = 0
        allowed = task.cpus_allowed
        for cpu in self.machine.cpus:
            if allowed is not None and cpu.index not in allowed:
                continue
            nr = cpu.nr_runnable + (1 if cpu.free_at_ns > self.machine.local_ns else 0)
            if self.capacity[cpu.index] < boost:
                nr += 1 << 32
            if best < 0 or nr < best_nr:
                best = cpu.index
                best_nr = nr
        return best

    # -- utilization

    def ran(self, cpu: FairCpu, se: Entity, start_ns: i64, end_ns: i64) -> None:
        """Book that se ran on cpu."""
        index = cpu.index
        level = self.speed[index]
        util = average(se.util, se.util_at_ns, start_ns, 0)
        se.util = average(util, start_ns, end_ns, level)
        se.util_at_ns = end_ns
        if not cpu.is_kept:
            # It sleeps: up at once, down by a quarter.
            se.util_est = se.util if se.util > se.util_est else se.util_est + (se.util - se.util_est) // 4
        util = average(self.util[index], self.util_at[index], start_ns, 0)
        self.util[index] = int(average(util, start_ns, end_ns, level))
        self.util_at[index] = int(end_ns)

    def task_util(self, task: Task) -> i64:
        """Return a task's utilization now, 0..1024, or what it usually is when it goes to sleep, if that is more.

        Kernel: task_util_est() and util_est_update(), kernel/sched/fair.c, v6.12.
        """
        se = entity_of(task)
        util = average(se.util, se.util_at_ns, self.machine.local_ns, 0)
        return max(util, se.util_est) >> LEVEL_BITS

    def cpu_util(self, index: int) -> i64:
        """Return a CPU's utilization now, 0..1024."""
        machine = self.machine
        cpu = machine.cpus[index]
        is_busy = isinstance(cpu, FairCpu) and cpu.hog is not None
        level = self.speed[index] if is_busy else 0
        return average(self.util[index], self.util_at[index], machine.local_ns, level) >> LEVEL_BITS

    def is_overutilized(self) -> bool:
        """Say whether any CPU is busy beyond 80 % of its capacity.

        Kernel: cpu_overutilized(), kernel/sched/fair.c, v6.12.
        """
        for index in range(len(self.capacity)):
            if self.cpu_util(index) * FITS >= self.capacity[index] * FULL:
                return True
        return False

    # -- energy

    def least_energy(self, task: Task, is_allowed: bool) -> int:
        """Return the CPU where task costs the least: its own, or the one with most room in a performance domain.

        Kernel: find_energy_efficient_cpu(), kernel/sched/fair.c, v6.12.
        """
        util = self.task_util(task)
        previous = task.cpu
        if util == 0 and is_allowed:
            return previous
        best = previous if is_allowed else -1
        best_cost: i64 = -1
        if is_allowed and self.room(previous, previous, util) >= 0:
            best_cost = self.energy(previous, previous, util)
        for domain in self.domains:
            target = -1
            most: i64 = -1
            if is_allowed and self.capacity[previous] == self.capacity[domain[0]]:
                most = self.room(previous, previous, util)
            for index in domain:
                if task.cpus_allowed is not None and index not in task.cpus_allowed:
                    continue
                room = self.room(index, previous, util)
                if room > most:
                    most = room
                    target = index
            if target < 0:
                continue
            cost = self.energy(target, previous, util)
            if best_cost < 0 or cost < best_cost:
                best = target
                best_cost = cost
        return best if best >= 0 else self.least_loaded(task, 0)

    def util_without(self, index: int, previous: int, util: i64) -> i64:
        """Return a CPU's utilization less what the task has added to its previous one."""
        mine = self.cpu_util(index)
        return max(0, mine - util) if index == previous else mine

    def room(self, index: int, previous: int, util: i64) -> i64:
        """Return the capacity left when the task has come, -1 if it does not fit; without a gate everything fits."""
        total = self.util_without(index, previous, util) + util
        capacity: i64 = self.capacity[index]
        if self.gate and total * FITS >= capacity * FULL:
            return -1
        return max(0, capacity - total)

    def energy(self, target: int, previous: int, util: i64) -> i64:
        """Return what the target's domain spends more when the task runs there.

        Kernel: compute_energy(), kernel/sched/fair.c, v6.12.
        """
        domain = self.domains[0]
        for other in self.domains:
            if self.capacity[other[0]] == self.capacity[target]:
                domain = other
        total: i64 = 0
        highest: i64 = 0
        highest_with: i64 = 0
        for index in domain:
            mine = self.util_without(index, previous, util)
            total += mine
            highest = max(highest, mine)
            highest_with = max(highest_with, mine + (util if index == target else 0))
        capacity: i64 = self.capacity[target]
        return self.cost(highest_with, capacity) * (total + util) - self.cost(highest, capacity) * total

    def cost(self, highest: i64, capacity: i64) -> i64:
        """Return the energy per work of a domain whose busiest CPU has that utilization; the clock leaves 20 % room."""
        clock = min(1000, highest * FITS * 1000 // (FULL * capacity))
        if not self.gate:
            # Capped: the clock does not follow.
            clock = 0
        voltage = VOLTAGE_LOW + (1000 - VOLTAGE_LOW) * clock // 1000
        return (BASE_POWER + (FULL - BASE_POWER) * capacity // FULL) * voltage * voltage // 1_000

    # -- balance

    def pull(self, cpu: FairCpu, now_ns: i64) -> bool:
        """Let a CPU that goes idle take a task that waits elsewhere in its cache domain.

        Kernel: sched_balance_newidle(), kernel/sched/fair.c, v6.12.
        """
        machine = self.machine
        if self.is_balanced_by_energy():
            return False
        busiest: FairCpu | None = None
        size = machine.cpus_per_cache
        first = cpu.index // size * size
        for index in range(first, min(first + size, machine.nr_cpus)):
            other = machine.cpus[index]
            if isinstance(other, FairCpu) and other is not cpu and other.nr_runnable > 0:
                if busiest is None or other.nr_runnable > busiest.nr_runnable:
                    busiest = other
        return busiest is not None and self.move(busiest, cpu, now_ns)

    def push(self, cpu: FairCpu, now_ns: i64) -> None:
        """Give a task that waits here to an idle CPU of the cache domain.

        Kernel: nohz_balancer_kick(), kernel/sched/fair.c, v6.12.
        """
        machine = self.machine
        if self.is_balanced_by_energy():
            return
        size = machine.cpus_per_cache
        first = cpu.index // size * size
        for index in range(first, min(first + size, machine.nr_cpus)):
            other = machine.cpus[index]
            if other is not cpu and isinstance(other, FairCpu) and other.is_idle(now_ns):
                self.move(cpu, other, now_ns)
                return

    def is_balanced_by_energy(self) -> bool:
        """Say whether load balancing is off."""
        return self.eas and (not self.gate or not self.is_overutilized())

    def move(self, source: FairCpu, target: FairCpu, now_ns: i64) -> bool:
        """Move the first task that waits at source, may run at target, and has not run lately."""
        queues = [source.root]
        queues += [se.own for se in entities(source.root.first) if se.own is not None]
        for queue in queues:
            for se in entities(queue.first):
                task = se.task
                if task is None or se is source.curr or now_ns - task.ran_until_ns < MIGRATION_NS:
                    continue
                if se.is_delayed:
                    # It sleeps, or has woken and is still to be admitted.
                    continue
                if task.cpus_allowed is not None and target.index not in task.cpus_allowed:
                    continue
                if self.capacity[target.index] < self.boost_of(task):
                    continue
                source.dequeue(se)
                source.nr_runnable -= 1
                task.cpu = target.index
                task.runnable_at_ns = now_ns
                self.nr_migrated += 1
                target.push(task, False)
                target.look_at(now_ns)
                return True
        return False


def entities(first: Entity | None) -> list[Entity]:
    """Return a queue's entities in order."""
    out: list[Entity] = []
    while first is not None:
        out.append(first)
        first = first.next
    return out
