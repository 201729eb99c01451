"""The simulated machine: charges, interrupts, timers, work, tasks on CPUs, faults."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from closed_loop import END, World, random_io, read, write

from blktwin.block.machine import Task, Timer, Work
from blktwin.sim.costs import COST_NAMES, Costs
from blktwin.sim.faults import Faults
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import CostTrace


def make_machine(cpus: int = 1, faults: dict[str, int] | None = None, **costs_ns: int) -> SimMachine:
    """Build a machine with some costs."""
    costs = Costs()
    costs.update(costs_ns)
    trace = CostTrace(costs)
    machine = SimMachine(trace, nr_cpus=cpus, hz=250, costs=costs, faults=Faults(1, faults or {}))
    trace.bind(machine)
    return machine


class Step(Task):
    """A task that logs when it runs and then does something."""

    def __init__(self, machine: SimMachine, log: list[tuple[str, int, int]], name: str) -> None:
        super().__init__(1, name, machine.cgroups.root)
        self.machine = machine
        self.log = log
        self.acts: list[Callable[[], None]] = []

    def run(self) -> None:
        """Log (name, cpu, time) and do the next act."""
        self.log.append((self.comm, self.cpu, int(self.machine.now_ns())))
        if self.acts:
            self.acts.pop(0)()


class NoteTimer(Timer):
    """A timer that logs."""

    def __init__(self, machine: SimMachine, log: list[tuple[str, int]], name: str) -> None:
        super().__init__()
        self.machine, self.log, self.name = machine, log, name

    def fire(self) -> None:
        """Log (name, time)."""
        self.log.append((self.name, int(self.machine.now_ns())))


class NoteWork(Work):
    """A work item that logs (name, task, cpu, time)."""

    def __init__(self, machine: SimMachine, log: list[tuple[str, str, int, int]], name: str) -> None:
        super().__init__()
        self.machine, self.log, self.name = machine, log, name

    def run(self) -> None:
        """Log."""
        machine = self.machine
        self.log.append((self.name, machine.current.comm, machine.current.cpu, int(machine.now_ns())))


# -- timers


def test_timers_fire_in_order_of_time_then_arming() -> None:
    """A timer that was moved stands where it was armed last."""
    machine, log = make_machine(), list[tuple[str, int]]()
    a, b, c, d = (NoteTimer(machine, log, name) for name in "abcd")
    machine.arm_timer(a, 10)
    machine.arm_timer(b, 20)
    machine.arm_timer(a, 20)
    machine.arm_timer(c, 20)
    machine.arm_timer(d, 5)
    machine.run(END, 100)
    assert log == [("d", 5), ("b", 20), ("a", 20), ("c", 20)]


def test_moved_earlier_fires_earlier() -> None:
    """Moving a timer to an earlier time takes its old place away."""
    machine, log = make_machine(), list[tuple[str, int]]()
    timer = NoteTimer(machine, log, "t")
    machine.arm_timer(timer, 1000)
    machine.arm_timer(timer, 100)
    machine.run(END, 100)
    assert log == [("t", 100)]


def test_cancelled_never_fires_and_can_be_armed_again() -> None:
    """cancel_timer() says whether the timer was armed; later arming works before and after the old time."""
    machine, log = make_machine(), list[tuple[str, int]]()
    timer, other = NoteTimer(machine, log, "t"), NoteTimer(machine, log, "o")
    assert not machine.cancel_timer(timer)
    machine.arm_timer(timer, 50)
    assert machine.cancel_timer(timer)
    assert not machine.cancel_timer(timer)
    machine.arm_timer(other, 60)
    machine.run(55, 100)
    machine.arm_timer(timer, 70)
    machine.cancel_timer(timer)
    machine.arm_timer(timer, 80)
    machine.run(END, 100)
    assert log == [("o", 60), ("t", 80)]
    assert not machine.cancel_timer(timer)


def test_a_timer_never_fires_before_it_was_armed() -> None:
    """A task that runs ahead of the queue and arms for a time gone by gets it now, not earlier."""
    machine, log, runs = make_machine(), list[tuple[str, int]](), list[tuple[str, int, int]]()
    timer = NoteTimer(machine, log, "t")
    task = Step(machine, runs, "task")

    def act() -> None:
        machine.charge(500)
        machine.arm_timer(timer, 100)

    task.acts.append(act)
    machine.start_task(task, 0, 0)
    machine.run(END, 100)
    assert log == [("t", 500)]


def test_many_moves_allocate_nothing() -> None:
    """Arming, moving and cancelling reuse the timer's one entry."""
    machine = make_machine()
    timer = NoteTimer(machine, [], "t")

    def churn(rounds: int) -> None:
        for at in range(rounds):
            machine.arm_timer(timer, 10_000_000 + at)
            if at % 3 == 0:
                machine.cancel_timer(timer)

    churn(100)
    before = sys.getallocatedblocks()
    churn(5_000)
    assert sys.getallocatedblocks() - before < 50
    assert machine.events.size == 1


# -- work and softirqs


def test_work_runs_in_the_worker_of_its_cpu_in_order() -> None:
    """Work never runs inline; several items run in the order of queueing, a pending one only once."""
    machine, log = make_machine(2), list[tuple[str, str, int, int]]()
    a, b = NoteWork(machine, log, "a"), NoteWork(machine, log, "b")
    machine.queue_work(a, 0, 1)
    machine.queue_work(b, 0, 1)
    machine.queue_work(a, 0, 1)
    assert log == []
    assert a.is_pending
    machine.run(END, 100)
    assert log == [("a", "kworker/1:1H", 1, 0), ("b", "kworker/1:1H", 1, 0)]
    assert not a.is_pending


def test_delayed_work_moves_to_the_earlier_time_only() -> None:
    """Queueing pending work again may bring it forward, never back."""
    machine, log = make_machine(), list[tuple[str, str, int, int]]()
    work = NoteWork(machine, log, "w")
    machine.queue_work(work, 1000, 0)
    machine.queue_work(work, 5000, 0)
    machine.run(500, 100)
    assert log == []
    machine.queue_work(work, 100, 0)
    machine.run(END, 100)
    assert [at for *_, at in log] == [100], "0 + 100: the clock of the caller still stands at 0"
    machine.queue_work(work, 0, 0)
    machine.run(END, 100)
    assert len(log) == 2


def test_work_does_not_run_before_it_was_queued() -> None:
    """A worker that is awake already waits for an item handed over by a task that runs ahead."""
    machine, log, runs = make_machine(2, queue_work=0), list[tuple[str, str, int, int]](), list[tuple[str, int, int]]()
    early, late = NoteWork(machine, log, "early"), NoteWork(machine, log, "late")
    task = Step(machine, runs, "task")

    def act() -> None:
        machine.queue_work(early, 0, 1)
        machine.charge(3000)
        machine.queue_work(late, 0, 1)

    task.acts.append(act)
    machine.start_task(task, 0, 0)
    machine.run(END, 100)
    assert [(name, at) for name, _, _, at in log] == [("early", 0), ("late", 3000)]


def test_softirq_goes_to_the_cpu_it_is_raised_on_each_time() -> None:
    """The same work may be raised on another CPU later."""
    machine, log = make_machine(2), list[tuple[str, str, int, int]]()
    work = NoteWork(machine, log, "s")
    machine.raise_softirq(work, 0)
    machine.run(END, 10)
    machine.raise_softirq(work, 1)
    machine.raise_softirq(work, 0)
    machine.run(END, 10)
    assert [cpu for _, _, cpu, _ in log] == [0, 1]


# -- CPUs and tasks


def test_one_cpu_is_a_serial_resource() -> None:
    """Two tasks on one CPU run one after the other, with a switch each; two CPUs run them at once."""
    for cpus, second in ((1, 1300), (2, 200)):
        machine, log = make_machine(cpus, switch=200), list[tuple[str, int, int]]()
        for index in range(2):
            task = Step(machine, log, f"t{index}")
            task.acts.append(lambda m=machine: m.charge(900))  # type: ignore[misc]
            machine.start_task(task, index % cpus, 0)
        machine.run(END, 100)
        assert [at for *_, at in log] == [200, second]


def test_a_task_starts_when_it_shall() -> None:
    """A task of the future does not run when its CPU looks for work now."""
    machine, log = make_machine(1), list[tuple[str, int, int]]()
    machine.start_task(Step(machine, log, "later"), 0, 1_000_000)
    machine.start_task(Step(machine, log, "now"), 0, 0)
    machine.run(END, 100)
    assert log == [("now", 0, 0), ("later", 0, 1_000_000)]


def test_nothing_runs_before_it_was_woken() -> None:
    """A task woken by another that runs ahead waits for that clock, though its CPU is free sooner."""
    machine, log = make_machine(2, wake=100), list[tuple[str, int, int]]()
    waker, busy, sleeper = (Step(machine, log, name) for name in ("waker", "busy", "sleeper"))
    sleeper.cpu = 1

    def act() -> None:
        machine.charge(5000)
        machine.wake_task(sleeper)

    waker.acts.append(act)
    busy.acts.append(lambda: machine.charge(1000))
    machine.start_task(waker, 0, 0)
    machine.start_task(busy, 1, 0)
    machine.run(END, 100)
    assert log == [("waker", 0, 0), ("busy", 1, 0), ("sleeper", 1, 5100)]


def test_an_idle_cpu_pays_for_being_woken_from_afar() -> None:
    """A task woken by another CPU waits for its own to leave idle and to switch, though it ran there last."""
    machine, log = make_machine(2, idle_exit=700, switch=50), list[tuple[str, int, int]]()
    waker, sleeper = Step(machine, log, "waker"), Step(machine, log, "sleeper")
    machine.start_task(sleeper, 1, 0)
    waker.acts.append(lambda: machine.wake_task(sleeper))
    machine.start_task(waker, 0, 10_000)
    machine.run(END, 100)
    assert log == [("sleeper", 1, 50), ("waker", 0, 10_750), ("sleeper", 1, 11_500)]


def test_a_wake_from_an_interrupt_leaves_the_busy_cpu() -> None:
    """The task that the interrupt falls into goes on, so the woken one looks for an idle CPU."""
    machine, log = make_machine(2), list[tuple[str, int, int]]()
    hog, woken = Step(machine, log, "hog"), Step(machine, log, "woken")
    hog.acts.append(lambda: machine.charge(10_000))
    machine.start_task(hog, 0, 0)
    machine.run(0, 100)
    machine.enter_irq(0, 0)
    machine.wake_task(woken)
    machine.leave_irq()
    machine.run(END, 100)
    assert log == [("hog", 0, 0), ("woken", 1, 0)]


def test_wake_prefers_its_own_cpu_then_an_idle_one() -> None:
    """A task goes back to its CPU if that is free, else to the first idle one, else it queues."""
    machine, log = make_machine(3), list[tuple[str, int, int]]()
    hog, a, b = (Step(machine, log, name) for name in ("hog", "a", "b"))
    hog.acts.append(lambda: machine.charge(10_000))
    machine.start_task(hog, 0, 0)
    machine.run(0, 100)
    for task, home in ((a, 0), (b, 2)):
        task.cpu = home
        machine.enter_irq(1, 0)
        machine.wake_task(task)
        machine.leave_irq()
    machine.run(END, 100)
    assert log == [("hog", 0, 0), ("a", 1, 0), ("b", 2, 0)]


def test_an_interrupt_lengthens_the_stretch_it_falls_into() -> None:
    """The task that runs ends later by the cost of the interrupt; the next one starts after it."""
    machine, log, ticks = make_machine(1, timer=300), list[tuple[str, int, int]](), list[tuple[str, int]]()
    first, second = Step(machine, log, "first"), Step(machine, log, "second")
    first.acts.append(lambda: machine.charge(1000))
    machine.arm_timer(NoteTimer(machine, ticks, "tick"), 400)
    machine.start_task(first, 0, 0)
    machine.start_task(second, 0, 0)
    machine.run(END, 100)
    assert ticks == [("tick", 700)]
    assert log == [("first", 0, 0), ("second", 0, 1300)]
    assert machine.cpus[0].busy_ns == 1300


def test_idle_exit_is_paid_once_per_waking() -> None:
    """An interrupt on an idle CPU pays it; the softirq that it raises and the task that it wakes do not."""
    costs = Costs()
    costs.update({"irq": 10, "idle_exit": 1000, "softirq": 20, "complete": 30, "wake": 40, "switch": 50})
    world = World("/dev/nvme0n1=nvme,latency=100us,overhead=0", costs=costs)
    ends: list[int] = []
    job = world.job(lambda number: ends.append(int(world.machine.now_ns())) or (read(0) if number < 2 else None))  # type: ignore[func-returns-value]
    world.run()
    link = job.done[0].ns - 100_000 - (10 + 1000 + 20 + 30)
    assert 0 < link < 2_000, "the latency is the device's, the link's and one idle exit"
    assert ends[1] - job.done[0].done_ns == 40 + 50
    assert job.done[1].ns == job.done[0].ns


def test_every_cost_has_a_field() -> None:
    """COST_NAMES and the fields of Costs are the same."""
    costs = Costs()
    costs.update({name: at for at, name in enumerate(COST_NAMES, 1)})
    assert costs.as_dict() == {name: at for at, name in enumerate(COST_NAMES, 1)}
    assert sorted(name + "_ns" for name in COST_NAMES) == sorted(
        name for name in dir(costs) if name.endswith("_ns") and not name.startswith("_")
    )


# -- faults


def test_no_faults_draw_nothing() -> None:
    """A machine without faults leaves the generator alone."""
    world = World("/dev/nullb0")
    before = world.machine.faults.rng.s1
    world.job(random_io(1, 0, 8, 50))
    world.run()
    assert world.machine.faults.rng.s1 == before


@pytest.mark.parametrize("cpus", [1, 4])
def test_io_errors_come_at_their_rate_and_every_io_ends(cpus: int) -> None:
    """A tenth of the I/Os fail, the rest do not; all end."""
    world = World("/dev/nullb0", cpus=cpus, faults={"io_error_ppm": 100_000})
    for cpu in range(cpus):
        world.job(random_io(cpu, 0, 8, 2000), 4, cpu)
    world.run()
    world.check_conservation()
    failed = sum(done.status != 0 for job in world.jobs for done in job.done)
    assert 0.08 * 2000 * cpus < failed < 0.12 * 2000 * cpus


def test_refused_requests_come_again() -> None:
    """A driver that is often busy loses nothing."""
    world = World("/dev/nullb0,depth=4", faults={"refuse_ppm": 300_000})
    world.job(random_io(1, 0, 8, 500), 8)
    world.run()
    world.check_conservation()
    assert len(world.jobs[0].done) == 500
    assert all(done.status == 0 for done in world.jobs[0].done)


def test_slow_io_late_timer_slow_work() -> None:
    """Each delay is added in full when its rate says always."""
    million = 1_000_000
    world = World("/dev/nullb0,latency=10us", faults={"slow_io_ppm": million, "slow_io_ns": 5_000})
    world.job(lambda number: write(0) if number == 0 else None)
    world.run()
    assert world.jobs[0].done[0].ns == 15_000
    machine, log = make_machine(1, {"late_timer_ppm": million, "late_timer_ns": 70}), list[tuple[str, int]]()
    machine.arm_timer(NoteTimer(machine, log, "t"), 100)
    machine.run(END, 10)
    assert log == [("t", 170)]
    machine, works = make_machine(1, {"slow_work_ppm": million, "slow_work_ns": 90}), list[tuple[str, str, int, int]]()
    machine.queue_work(NoteWork(machine, works, "w"), 0, 0)
    machine.run(END, 10)
    assert [at for *_, at in works] == [90]


def test_same_seed_same_faults() -> None:
    """Two runs of one seed fail at the same places, another seed elsewhere."""

    def failures(seed: int) -> list[int]:
        world = World("/dev/nullb0", seed=seed, faults={"io_error_ppm": 50_000})
        world.job(random_io(1, 0, 8, 500))
        world.run()
        return [done.number for done in world.jobs[0].done if done.status]

    assert failures(3) == failures(3) != failures(4)
