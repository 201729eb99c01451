"""Where woken tasks run: idle siblings, energy-aware packing and its gate, speed, utilization."""

from __future__ import annotations

import pytest
from cpu_world import END, MS, Item, Sleeper, add_hog, make_spec, make_world, used
from hypothesis import given
from hypothesis import strategies as st

from blktwin.block.machine import WorkQueue
from blktwin.sim.machine import SimMachine
from blktwin.sim.pelt import LEVEL_BITS, average, decay_of
from blktwin.sim.topology import CpuSpec

LITTLE = 369
HALF_LIFE_NS = 32 * 1024 * 1000 + 768 * 1000
"""32 periods of 1024 us, in ns of 1024."""


def phone(**values: object) -> CpuSpec:
    """Return four little and four big CPUs."""
    return make_spec(**{"sched": "eevdf", "capacity": [LITTLE] * 4 + [1024] * 4, "eas": True, **values})


class Loop:
    """Items that are queued again a while after each end: closed jobs whose work is done by workers."""

    def __init__(self, machine: SimMachine, count: int, run_ns: int, sleep_ns: int) -> None:
        self.machine = machine
        self.wq: WorkQueue = machine.alloc_workqueue("w", 0)
        self.items = [Item(machine, run_ns) for _ in range(count)]
        self.jobs: list[Sleeper] = []
        for at, item in enumerate(self.items):
            job = Requeue(self, item, sleep_ns + at * 1_700)
            self.jobs.append(job)
            machine.start_task(job, 4 + at % 4, at * 1_000)

    def cpus(self, last: int) -> set[int]:
        """Return where the last items ran."""
        return {cpu for item in self.items for cpu in item.cpus[-last:]}


class Requeue(Sleeper):
    """A task that queues its item, sleeps, and does so again."""

    def __init__(self, loop: Loop, item: Item, sleep_ns: int) -> None:
        super().__init__(loop.machine, sleep_ns, 1_000, 1 << 30)
        self.loop = loop
        self.item = item
        self.cpus_allowed = [4, 5, 6, 7]

    def run(self) -> None:
        """Queue it."""
        self.machine.queue_on(self.loop.wq, self.item)
        super().run()


# -- utilization


def test_utilization_halves_in_32_periods() -> None:
    """From full to half, a quarter, nothing; and from nothing to half."""
    full = 1024 << LEVEL_BITS
    half_life = 32_768_000
    assert average(full, 0, half_life, 0) == pytest.approx(full / 2, rel=1e-4)
    assert average(full, 0, 2 * half_life, 0) == pytest.approx(full / 4, rel=1e-4)
    assert average(0, 0, half_life, 1024) == pytest.approx(full / 2, rel=1e-4)
    assert average(full, 0, 10**12, 0) == 0
    assert average(0, 0, 10**12, 369) == 369 << LEVEL_BITS
    assert decay_of(0) == 1 << LEVEL_BITS


def test_75_ms_of_work_make_a_cpu_overutilized() -> None:
    """From zero, at full load: 80 % are reached after about 75 ms."""
    reached = next(ms for ms in range(200) if average(0, 0, ms * MS, 1024) >> LEVEL_BITS >= 819)
    assert 72 <= reached <= 78


@given(st.lists(st.tuples(st.integers(0, 50 * MS), st.booleans()), max_size=30), st.integers(1, 1024))
def test_utilization_stays_between_nothing_and_the_level(spans: list[tuple[int, bool]], level: int) -> None:
    """Whatever runs when."""
    util = now = 0
    for length, runs in spans:
        util = int(average(util, now, now + length, level if runs else 0))
        now += length
        assert 0 <= util <= level << LEVEL_BITS


# -- an idle CPU


@pytest.mark.parametrize("sched", ["cfs", "eevdf"])
def test_a_task_goes_home_or_to_an_idle_cpu_of_its_cache(sched: str) -> None:
    """Its own CPU if that is idle, else the next idle one of the cache domain, else its own."""
    machine = make_world(4, make_spec(sched=sched))
    machine.cpus_per_cache = 2
    sleeper = Sleeper(machine, 1 * MS, 1_000, 30)
    machine.start_task(sleeper, 0, 0)
    machine.run(10 * MS, END)
    assert set(sleeper.cpus_used) == {0}
    add_hog(machine, 0, [0])
    machine.run(20 * MS, END)
    assert set(sleeper.cpus_used[12:]) == {1}
    add_hog(machine, 0, [1])
    machine.run(100 * MS, END)
    assert set(sleeper.cpus_used[-5:]) <= {0, 1}


def test_affinity_holds() -> None:
    """A task never runs where it may not, however idle."""
    machine = make_world(4, make_spec(sched="eevdf"))
    sleeper = Sleeper(machine, 1 * MS, 1_000, 30)
    sleeper.cpus_allowed = [2]
    add_hog(machine, 0, [2])
    machine.start_task(sleeper, 2, 0)
    machine.run(END // 2, 10_000)
    assert set(sleeper.cpus_used) == {2}
    assert len(sleeper.cpus_used) == 30


# -- speed


@pytest.mark.parametrize("sched", ["fifo", "cfs", "eevdf"])
def test_a_slow_cpu_takes_longer_for_everything(sched: str) -> None:
    """Capacity times frequency scales work, switches and interrupts, but not latencies."""
    times = {}
    for freq in (1000, 500):
        spec = make_spec(sched=sched, capacity=[512, 1024], freq=[freq, 1000])
        machine = make_world(2, spec, switch=2_000, timer=10_000, sleep=4_000, idle_exit=300)
        sleeper = Sleeper(machine, 1 * MS, 100_000, 2)
        sleeper.cpus_allowed = [0]
        machine.start_task(sleeper, 0, 0)
        machine.run(END, END)
        times[freq] = used(sleeper), int(machine.cpus[0].busy_ns)
    # Two steps and the switches to them; the second follows an interrupt, on the CPU that this has woken.
    assert times[1000] == (2 * (2_000 + 100_000 + 4_000) * 2, 2 * (2_000 + 100_000 + 4_000) * 2 + 10_000 * 2 + 300)
    assert times[500] == (2 * times[1000][0], 2 * times[1000][1] - 300)
    assert machine.costs is machine.plain_costs


def test_cpus_alike_swap_no_tables() -> None:
    """A symmetric machine pays nothing for what others need."""
    machine = make_world(2, make_spec(sched="eevdf", capacity=[1024, 1024]))
    assert not machine.is_uneven
    assert not machine.has_pelt


# -- energy


def test_packing_without_a_gate_and_spreading_with_it() -> None:
    """Small workers share one little CPU; with the gate that one's overload sends them elsewhere."""
    packed = make_world(8, phone(overutilized_gate=False, uclamp_min=1024))
    loop = Loop(packed, 16, 100_000, 1 * MS)
    packed.run(500 * MS, END)
    assert len(loop.cpus(20)) == 1
    cpu = packed.cpus[loop.cpus(1).pop()]
    assert packed.cpu_capacity[cpu.index] == LITTLE
    assert cpu.busy_ns > 490 * MS
    assert packed.placement.nr_gated == 0
    gated = make_world(8, phone(uclamp_min=1024))
    spread = Loop(gated, 16, 100_000, 1 * MS)
    gated.run(500 * MS, END)
    assert len(spread.cpus(20)) >= 4
    assert sum(len(item.ends) for item in spread.items) > 2 * sum(len(item.ends) for item in loop.items)


def test_without_eas_workers_spread() -> None:
    """The same machine without energy-aware placement."""
    machine = make_world(8, phone(eas=False, uclamp_min=1024))
    loop = Loop(machine, 16, 100_000, 1 * MS)
    machine.run(500 * MS, END)
    assert len(loop.cpus(20)) >= 4
    assert machine.placement.nr_packed == machine.placement.nr_gated == 0


def test_a_task_without_utilization_stays() -> None:
    """Whatever runs there."""
    machine = make_world(8, phone())
    sleeper = Sleeper(machine, 40 * MS, 10_000, 10)
    machine.start_task(sleeper, 2, 0)
    add_hog(machine, 0, [2])
    machine.placement.gate = False
    machine.run(300 * MS, END)
    assert set(sleeper.cpus_used) == {2}


def test_a_small_task_moves_to_a_little_cpu_and_a_large_one_to_a_big_one() -> None:
    """Energy per work is lower there, as long as it fits."""
    machine = make_world(8, phone())
    small, large = Sleeper(machine, 9 * MS, 500_000, 100), Sleeper(machine, 4 * MS, 10 * MS, 100)
    machine.start_task(small, 7, 0)
    machine.start_task(large, 0, 0)
    machine.run(900 * MS, END)
    assert set(small.cpus_used[-20:]) <= {0, 1, 2, 3}
    assert set(large.cpus_used[-20:]) <= {4, 5, 6, 7}


def test_a_burst_sees_one_snapshot() -> None:
    """Tasks that wake together choose the same CPU: none of them has run yet."""
    machine = make_world(8, phone(overutilized_gate=False))
    tasks = [Sleeper(machine, 10 * MS, 400_000, 100) for _ in range(6)]
    for task in tasks:
        task.cpus_allowed = [4, 5, 6, 7]
        machine.start_task(task, 7, 0)
    machine.run(400 * MS, END)
    for task in tasks:
        task.cpus_allowed = None
    machine.enter_irq(0, 0)
    asleep = [task for task in tasks if task.ran_until_ns <= machine.local_ns and not task.is_queued]
    chosen = [machine.placement.choose(task).index for task in asleep]
    machine.leave_irq()
    assert len(chosen) >= 4
    assert set(chosen) == {0}


def test_boosted_tasks_run_on_large_cpus() -> None:
    """uclamp_min keeps all but workers off the little ones."""
    machine = make_world(8, phone(uclamp_min=1024))
    sleeper = Sleeper(machine, 2 * MS, 50_000, 50)
    machine.start_task(sleeper, 0, 0)
    machine.run(END // 2, 10_000)
    assert sleeper.cpus_used[0] == 0
    assert set(sleeper.cpus_used[1:]) <= {4, 5, 6, 7}


# -- idle states


def test_deep_idle_costs_more() -> None:
    """After deep_after the exit takes deep_idle longer."""
    machine = make_world(1, make_spec(sched="eevdf", deep_after_ns=1 * MS, deep_idle_ns=150_000), idle_exit=10_000)
    shallow, deep = Sleeper(machine, 700_000, 1_000, 2), Sleeper(machine, 5 * MS, 1_000, 2)
    machine.start_task(shallow, 0, 0)
    machine.run(4 * MS, END)
    busy = int(machine.cpus[0].busy_ns)
    assert busy == 2 * 1_000 + 10_000
    machine.start_task(deep, 0, 4 * MS)
    machine.run(END, END)
    assert machine.cpus[0].busy_ns - busy == 2 * 1_000 + 2 * 160_000


@pytest.mark.parametrize("sched", ["fifo", "cfs", "eevdf"])
def test_on_a_machine_without_costs_all_placements_are_equal(sched: str) -> None:
    """Nothing waits when nothing costs, wherever it runs."""
    ends = []
    for spec in (
        make_spec(sched=sched),
        make_spec(sched=sched, worker_cpus=[0]),
        make_spec(sched=sched, worker_scope="cpu"),
    ):
        machine = make_world(4, spec)
        wq = machine.alloc_workqueue("w", 0)
        items = [Item(machine, 0) for _ in range(8)]
        for at, item in enumerate(items):
            machine.enter_irq(at % 4, 0)
            machine.queue_on(wq, item)
            machine.leave_irq()
        machine.run(END, END)
        ends.append([item.ends for item in items])
    assert ends[0] == ends[1] == ends[2]
