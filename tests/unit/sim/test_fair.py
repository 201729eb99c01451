"""Fair run queues: shares by weight, who waits for whom, cgroups, CPU time that adds up."""

from __future__ import annotations

import pytest
from cpu_world import END, MS, Item, Sleeper, add_hog, make_spec, make_world, used
from hypothesis import given
from hypothesis import strategies as st

from blktwin.sim.fair import entity_of
from blktwin.sim.fair_queue import NICE_WEIGHTS, nice_weight
from blktwin.sim.hog import Hog
from blktwin.sim.machine import SimMachine
from blktwin.sim.topology import scale_factor

SCHEDS = ("cfs", "eevdf")


def run(machine: SimMachine, ms: int) -> None:
    """Run for ms, and book what runs then."""
    machine.run(ms * MS, END)
    machine.settle(ms * MS)


@pytest.mark.parametrize("sched", SCHEDS)
def test_two_equal_hogs_share_alike(sched: str) -> None:
    """After any time they differ by one stretch at most, and leave nothing of the CPU."""
    machine = make_world(1, make_spec(sched=sched))
    a, b = add_hog(machine), add_hog(machine)
    most = {"cfs": 6 * MS, "eevdf": 700_000}[sched]
    for ms in range(7, 500, 13):
        run(machine, ms)
        assert used(a) + used(b) == ms * MS == machine.cpus[0].busy_ns
        assert abs(used(a) - used(b)) <= most + 1
    assert entity_of(a).nr_preempted >= 490 * MS // (2 * most) - 1


@pytest.mark.parametrize("sched", SCHEDS)
@pytest.mark.parametrize("nice", [-5, 1, 5, 10])
def test_nice_weights_give_their_ratio(sched: str, nice: int) -> None:
    """A hog of another nice value gets what the weights say."""
    machine = make_world(1, make_spec(sched=sched))
    a, b = add_hog(machine), add_hog(machine, nice)
    run(machine, 4000)
    assert used(a) / used(b) == pytest.approx(1024 / nice_weight(nice), rel=0.02)


def test_weights_fall_by_a_tenth_of_a_cpu() -> None:
    """Each step of nice is a factor of 1.25, 0 is 1024."""
    assert len(NICE_WEIGHTS) == 40
    assert nice_weight(0) == 1024
    for higher, lower in zip(NICE_WEIGHTS, NICE_WEIGHTS[1:], strict=False):
        assert higher / lower == pytest.approx(1.25, rel=0.08)


@given(
    sched=st.sampled_from(SCHEDS),
    nices=st.lists(st.integers(-8, 8), min_size=1, max_size=7),
    cpus=st.sampled_from((1, 2, 8)),
)
def test_hogs_of_any_weights_get_their_shares(sched: str, nices: list[int], cpus: int) -> None:
    """On one CPU nobody is ahead of or behind his share by more than a few slices, and no time is lost."""
    machine = make_world(cpus, make_spec(sched=sched))
    hogs = [add_hog(machine, nice, [0]) for nice in nices]
    end = 3000
    run(machine, end)
    assert sum(used(hog) for hog in hogs) == end * MS
    total = sum(nice_weight(nice) for nice in nices)
    slice_ns = {"cfs": 6 * MS, "eevdf": 700_000}[sched] * scale_factor(cpus)
    for hog, nice in zip(hogs, nices, strict=True):
        share = end * MS * nice_weight(nice) / total
        # A new CFS task begins one slice behind; EEVDF's bound is a slice either way.
        assert abs(used(hog) - share) <= 3 * slice_ns


@pytest.mark.parametrize("cpus", [1, 2, 8])
def test_a_sleeper_waits_for_a_slice_under_eevdf_and_not_at_all_under_cfs(cpus: int) -> None:
    """Against one hog; the first wait of a new task apart."""
    slice_ns = 700_000 * scale_factor(cpus)
    waits: dict[str, list[int]] = {}
    for sched in SCHEDS:
        machine = make_world(cpus, make_spec(sched=sched))
        hog = add_hog(machine, 0, [0])
        sleeper = Sleeper(machine, 5_300_000, 400_000, 220)
        sleeper.cpus_allowed = [0]
        machine.start_task(sleeper, 0, 0)
        run(machine, 1500)
        assert sleeper.stime_ns + used(hog) == 1500 * MS
        waits[sched] = sleeper.waits[1:]
    assert max(waits["cfs"]) == 0
    assert max(waits["eevdf"]) <= slice_ns
    assert max(waits["eevdf"]) > slice_ns // 2
    assert sum(waits["eevdf"]) / len(waits["eevdf"]) > slice_ns / 20


def test_times_scale_with_cpus() -> None:
    """0.7 ms for one CPU, 1.4 for two, 2.8 from eight on."""
    assert [scale_factor(cpus) for cpus in (1, 2, 4, 7, 8, 64)] == [1, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("sched", SCHEDS)
def test_interrupts_are_not_booked_as_the_hogs_time(sched: str) -> None:
    """A timer's cost lengthens the stretch; hog and interrupts make up all of the time."""
    machine = make_world(1, make_spec(sched=sched), timer=50_000)
    a, b = add_hog(machine), add_hog(machine)
    sleeper = Sleeper(machine, 900_000, 10_000, 100)
    machine.start_task(sleeper, 0, 0)
    run(machine, 300)
    irq = 99 * 50_000
    assert used(a) + used(b) + sleeper.stime_ns + irq == 300 * MS
    assert machine.cpus[0].busy_ns == 300 * MS


@pytest.mark.parametrize("sched", SCHEDS)
def test_cgroups_share_by_their_weight(sched: str) -> None:
    """A group of three hogs with weight 300 has three times the CPU of one in the root; its members share alike."""
    machine = make_world(1, make_spec(sched=sched))
    group = machine.cgroups.get("/g")
    machine.set_cpu_weight(group, 300)
    alone = add_hog(machine)
    members = [add_hog(machine, cgroup=group) for _ in range(3)]
    run(machine, 3000)
    assert sum(used(hog) for hog in members) / used(alone) == pytest.approx(3, rel=0.03)
    for hog in members:
        assert used(hog) * 3 == pytest.approx(sum(used(h) for h in members), rel=0.03)
    assert sum(used(hog) for hog in [alone, *members]) == 3000 * MS


@pytest.mark.parametrize("sched", SCHEDS)
def test_a_groups_weight_is_divided_among_cpus(sched: str) -> None:
    """With one member on each of two CPUs, each has half of the weight there."""
    machine = make_world(2, make_spec(sched=sched))
    group = machine.cgroups.get("/g")
    machine.set_cpu_weight(group, 200)
    rivals = [add_hog(machine, 0, [cpu]) for cpu in (0, 1)]
    members = [add_hog(machine, 0, [cpu], group) for cpu in (0, 1)]
    run(machine, 2000)
    for rival, member in zip(rivals, members, strict=True):
        assert used(member) / used(rival) == pytest.approx(1, rel=0.03)


@pytest.mark.parametrize("sched", SCHEDS)
def test_an_idle_cpu_takes_what_waits(sched: str) -> None:
    """Two hogs that began on one CPU end up on two; one that is bound stays."""
    machine = make_world(2, make_spec(sched=sched))
    bound, second = add_hog(machine, 0, [0]), add_hog(machine, 0, [0])
    free = Hog(7, "free", machine.cgroups.root, 0, [])
    machine.start_task(free, 0, 0)
    run(machine, 1000)
    assert free.cpu == 1
    assert used(free) >= 980 * MS
    assert abs(used(bound) - used(second)) <= 6 * MS
    assert machine.placement.nr_migrated == 1


@pytest.mark.parametrize("sched", SCHEDS)
def test_workers_that_yield_take_turns(sched: str) -> None:
    """Two items on one CPU that ask cond_resched() both make progress, one slice at a time."""
    machine = make_world(1, make_spec(sched=sched))
    wq = machine.alloc_workqueue("w", 0)
    items = [Item(machine, 100_000, 200) for _ in range(2)]
    for item in items:
        assert machine.queue_on(wq, item)
    machine.run(END, END)
    ends = sorted(item.ends[0] for item in items)
    assert ends[1] == 40 * MS
    most = {"cfs": 6 * MS, "eevdf": 1_500_000}[sched]
    assert ends[0] >= 40 * MS - most
    worker = machine.pools.pools[0].workers[0]
    assert entity_of(worker).nr_preempted >= 5
    assert worker.wait_ns > 10 * MS


def test_under_fifo_a_worker_goes_on_to_its_end() -> None:
    """The same items one after the other."""
    machine = make_world(1)
    wq = machine.alloc_workqueue("w", 0)
    items = [Item(machine, 100_000, 200) for _ in range(2)]
    for item in items:
        machine.queue_on(wq, item)
    machine.run(END, END)
    assert [item.ends[0] for item in items] == [20 * MS, 40 * MS]


def test_a_worker_of_low_nice_does_not_wait() -> None:
    """worker_nice -20 takes a hog's CPU at once, under CFS and, but for its lag, under EEVDF."""
    for sched in SCHEDS:
        mean = {}
        for nice in (0, -20):
            machine = make_world(1, make_spec(sched=sched, worker_nice=nice))
            add_hog(machine)
            wq = machine.alloc_workqueue("w", 0)
            item = Item(machine, 500_000)
            machine.queue_on(wq, item)
            for ms in range(5, 1000, 5):
                machine.run(ms * MS + 13_000 * ms, END)
                machine.enter_irq(0, 0)
                machine.queue_on(wq, item)
                machine.leave_irq()
            run(machine, 1100)
            worker = machine.pools.pools[0].workers[0]
            mean[nice] = int(worker.wait_ns) // len(item.starts)
        assert mean[-20] <= mean[0]
        assert mean[-20] <= 20_000


def test_determinism() -> None:
    """Two runs of one world are alike."""

    def once() -> list[int]:
        machine = make_world(2, make_spec(sched="eevdf"), switch=1_500, idle_exit=3_000, wake=700)
        hogs = [add_hog(machine) for _ in range(3)]
        sleepers = [Sleeper(machine, 700_000 + 10_000 * at, 90_000, 200) for at in range(5)]
        for at, sleeper in enumerate(sleepers):
            machine.start_task(sleeper, at % 2, 0)
        run(machine, 300)
        return [used(hog) for hog in hogs] + [wait for sleeper in sleepers for wait in sleeper.waits]

    assert once() == once()
