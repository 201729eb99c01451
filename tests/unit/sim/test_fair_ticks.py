"""EEVDF in detail: slices end at ticks, sleepers that owe time stay queued, interrupts are the runner's time."""

from __future__ import annotations

import pytest
from cpu_world import END, MS, Sleeper, Wake, add_hog, make_spec, make_world, used

from blktwin.block.machine import Task, Timer
from blktwin.sim.fair import FairCpu, entity_of
from blktwin.sim.fair_ticks import TickCpu
from blktwin.sim.machine import SimMachine

TICK = 4 * MS
STEP = 10_000


class Runner(Task):
    """A task that works in steps of STEP ns and may lose the CPU after each; turns holds when each turn began."""

    def __init__(self, machine: SimMachine, nr_steps: int) -> None:
        super().__init__(2, "runner", machine.cgroups.root)
        self.machine = machine
        self.left = nr_steps
        self.turns: list[int] = []

    def run(self) -> None:
        """Go on."""
        machine = self.machine
        self.turns.append(int(machine.local_ns))
        while self.left > 0:
            machine.charge(STEP)
            self.left -= 1
            if machine.cond_resched(self):
                return


class Beat(Timer):
    """A timer that arms itself again, so that its interrupts come every period_ns."""

    def __init__(self, machine: SimMachine, period_ns: int, rounds: int) -> None:
        super().__init__()
        self.machine = machine
        self.period_ns = period_ns
        self.rounds = rounds

    def fire(self) -> None:
        """Come again."""
        self.rounds -= 1
        if self.rounds > 0:
            self.machine.arm_timer(self, int(self.machine.events.now_ns) + self.period_ns)


def make(ticks: bool, **costs_ns: int) -> SimMachine:
    """Return a machine of one CPU under EEVDF."""
    return make_world(1, make_spec(sched="eevdf", ticks=ticks), None, **costs_ns)


def cpu_of(machine: SimMachine) -> FairCpu:
    """Return the CPU."""
    cpu = machine.cpus[0]
    assert isinstance(cpu, FairCpu)
    return cpu


def test_a_flag_of_the_host_says_so() -> None:
    assert isinstance(make(True).cpus[0], TickCpu)
    assert make(True).has_preemption
    assert not isinstance(make(False).cpus[0], TickCpu)
    assert not make(False).has_preemption
    assert make_spec(sched="cfs", ticks=True).problem(1) == ("ticks", "needs sched = eevdf")


def test_hogs_take_turns_at_ticks() -> None:
    """A slice of 0.7 ms is used up long before: each turn is one tick."""
    machine = make(True)
    hogs = [add_hog(machine) for _ in range(3)]
    machine.run(120 * MS, END)
    machine.settle(120 * MS)
    assert [used(hog) for hog in hogs] == [40 * MS] * 3
    assert sum(entity_of(hog).nr_preempted for hog in hogs) in (29, 30)


def test_tasks_take_turns_at_ticks() -> None:
    machine = make(True)
    runners = [Runner(machine, 2_000) for _ in range(3)]
    for runner in runners:
        machine.start_task(runner, 0, 0)
    machine.run(END, END)
    starts = sorted(start for runner in runners for start in runner.turns)
    # A step that begins before the tick goes on to its end.
    assert all((start + STEP) % TICK <= 3 * STEP for start in starts)
    assert starts[-1] <= 60 * MS
    assert len(starts) >= 12


def test_who_sleeps_owing_time_is_let_in_when_it_has_been_paid() -> None:
    """It is placed before the runner's time is brought up to date, which has then had more than its share."""
    machine = make(True)
    runner = Runner(machine, 20_000)
    sleeper = Sleeper(machine, 400_000, 100_000, 200)
    machine.start_task(runner, 0, 0)
    machine.start_task(sleeper, 0, 0)
    machine.run(END, END)
    assert runner.left == sleeper.rounds == 0
    assert sorted(sleeper.waits[2:])[180] <= STEP


def test_a_delayed_task_is_placed_where_the_queue_was_at_the_last_update() -> None:
    """The runner has run for a quarter of a millisecond since; a task that was no longer queued is placed beside it."""
    machine = make(True)
    cpu = cpu_of(machine)
    assert isinstance(cpu, TickCpu)
    runner, late = (Runner(machine, 1) for _ in range(2))
    curr, se = entity_of(runner), entity_of(late)
    cpu.enqueue(curr)
    cpu.set_curr(curr)
    cpu.enqueue(se)
    se.is_delayed = True
    cpu.root.run_on(curr, MS // 4)
    cpu.enqueue(se)
    assert (se.is_delayed, se.vruntime, curr.vruntime) == (False, 0, MS // 4)
    assert cpu.preempts(se, curr)
    cpu.dequeue(se)
    assert not se.is_delayed
    assert se.vlag > 0
    se.vlag = 0
    cpu.enqueue(se)
    assert se.vruntime == curr.vruntime
    assert not cpu.preempts(se, curr)


def test_who_owes_time_when_it_wakes_waits() -> None:
    """It ran for 3 ms alone and sleeps for 50 us: the other has not had as much yet."""
    machine = make(True)
    sleeper = Sleeper(machine, 50_000, 3 * MS, 3)
    runner = Runner(machine, 1_000)
    machine.start_task(sleeper, 0, 0)
    machine.start_task(runner, 0, 100_000)
    machine.run(END, END)
    assert len(sleeper.waits) == 3
    assert sleeper.waits[1] > MS // 2


def test_nobody_stays_queued_on_an_idle_cpu() -> None:
    machine = make(True)
    sleeper = Sleeper(machine, 300_000, 200_000, 50)
    runner = Runner(machine, 500)
    machine.start_task(runner, 0, 0)
    machine.start_task(sleeper, 0, 0)
    cpu = cpu_of(machine)
    seen = 0
    while machine.run(END, 1):
        seen = max(seen, int(cpu.root.nr))
        assert cpu.root.nr >= cpu.nr_runnable - 1
    assert seen == 2
    assert cpu.root.nr == 0
    assert not entity_of(sleeper).is_delayed


@pytest.mark.parametrize("ticks", [True, False])
def test_interrupts_are_booked_as_the_runners_time(ticks: bool) -> None:
    """The kernel's without CONFIG_IRQ_TIME_ACCOUNTING."""
    machine = make(ticks, timer=5_000)
    runner = Runner(machine, 1_000)
    machine.start_task(runner, 0, 0)
    machine.arm_timer(Beat(machine, 100_000, 90), 50_000)
    machine.run(END, END)
    booked = int(entity_of(runner).vruntime)
    assert booked == 1_000 * STEP + (90 * 5_000 if ticks else 0)


def test_a_woken_task_leaves_nobody_behind() -> None:
    """Twenty sleepers of many lengths beside a runner: all rounds are run, and CPU time adds up."""
    machine = make(True)
    runner = Runner(machine, 30_000)
    machine.start_task(runner, 0, 0)
    sleepers = [Sleeper(machine, 90_000 + 7_000 * at, 5_000 + 3_000 * at, 40) for at in range(20)]
    for at, sleeper in enumerate(sleepers):
        assert isinstance(sleeper.timer, Wake)
        machine.start_task(sleeper, 0, 1_000 * at)
    machine.run(END, END)
    assert runner.left == 0
    assert [sleeper.rounds for sleeper in sleepers] == [0] * 20
    assert used(runner) == 30_000 * STEP
    assert [used(sleeper) for sleeper in sleepers] == [40 * (5_000 + 3_000 * at) for at in range(20)]
    assert cpu_of(machine).root.nr == 0


def test_a_delayed_task_is_pulled_by_no_other_cpu() -> None:
    """It sleeps: taken out and queued elsewhere it would run, or leave two queues at once."""
    machine = make_world(2, make_spec(sched="eevdf", ticks=True), None)
    source, target = machine.cpus
    assert isinstance(source, TickCpu)
    assert isinstance(target, TickCpu)
    se = entity_of(Runner(machine, 1))
    source.enqueue(se)
    source.nr_runnable += 1
    se.is_delayed = True
    assert not machine.placement.move(source, target, END)
    assert (se.queue, source.root.nr, target.head) == (source.root, 1, None)
    se.is_delayed = False
    assert machine.placement.move(source, target, END)
    assert (source.root.nr, target.head) == (0, se.task)
