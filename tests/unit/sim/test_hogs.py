"""CPU hogs: stretches that are cut short, time that is given back, where they run."""

from __future__ import annotations

import pytest
from cpu_world import END, MS, Item, Sleeper, add_hog, make_spec, make_world, used

from blktwin.sim.fair import entity_of
from blktwin.sim.hog import Hog

SCHEDS = ("cfs", "eevdf")


@pytest.mark.parametrize("sched", SCHEDS)
def test_a_lone_hog_needs_no_events(sched: str) -> None:
    """It runs for ever in one stretch, which is booked when somebody looks."""
    machine = make_world(1, make_spec(sched=sched), switch=2_000)
    hog = add_hog(machine)
    assert machine.run(10_000 * MS, END) == 1
    assert machine.events.size == 0
    machine.settle(1_000 * MS)
    assert used(hog) == 1_000 * MS - 2_000
    machine.settle(3_000 * MS)
    assert used(hog) == 3_000 * MS - 2_000
    assert machine.cpus[0].busy_ns == 3_000 * MS
    assert not machine.cpus[0].is_idle(5_000 * MS)


def test_a_wakeup_cuts_the_stretch_and_the_rest_is_given_back() -> None:
    """Under CFS the woken task runs at once; the hog goes on after it, with a switch each way."""
    machine = make_world(1, make_spec(sched="cfs"), switch=2_000, sleep=500)
    hog = add_hog(machine)
    machine.run(0, END)
    sleeper = Sleeper(machine, 20 * MS, 100_000, 5)
    entity_of(sleeper).is_new = False
    machine.start_task(sleeper, 0, 50 * MS)
    machine.run(900 * MS, END)
    machine.settle(900 * MS)
    assert sleeper.waits == [2_000] * 5
    assert used(sleeper) == 5 * (100_000 + 2_000 + 500)
    assert used(hog) == 900 * MS - used(sleeper) - 6 * 2_000
    assert entity_of(hog).nr_preempted == 5
    assert sleeper.nr_switches == 5


def test_an_interrupt_delays_the_cut() -> None:
    """Who wakes in an interrupt runs when that has ended, and the interrupt is nobody's time."""
    machine = make_world(1, make_spec(sched="cfs"), timer=30_000)
    hog = add_hog(machine)
    machine.run(0, END)
    sleeper = Sleeper(machine, 20 * MS, 100_000, 5)
    entity_of(sleeper).is_new = False
    machine.start_task(sleeper, 0, 50 * MS)
    machine.run(400 * MS, END)
    machine.settle(400 * MS)
    assert max(sleeper.waits) == 0
    assert used(hog) + used(sleeper) + 4 * 30_000 == 400 * MS


def test_hogs_go_where_the_fewest_are() -> None:
    """One on each CPU first; those that are bound where they must."""
    machine = make_world(4, make_spec(sched="eevdf"))
    bound = [add_hog(machine, 0, [2, 3]) for _ in range(2)]
    free = [add_hog(machine) for _ in range(4)]
    machine.run(10 * MS, END)
    assert [hog.cpu for hog in bound] == [2, 3]
    assert sorted(hog.cpu for hog in free) == [0, 0, 1, 1] or sorted(hog.cpu for hog in free) == [0, 1, 2, 2]


def test_a_hog_needs_a_fair_machine() -> None:
    """First come, first served would never take the CPU from it."""
    machine = make_world(1)
    with pytest.raises(AssertionError, match="sched cfs or eevdf"):
        machine.start_hog(Hog(1, "hog", machine.cgroups.root, 0, []), 0)


@pytest.mark.parametrize("sched", SCHEDS)
def test_a_hog_makes_workers_wait(sched: str) -> None:
    """On one CPU with a hog an item takes longer on average under EEVDF than under CFS, and never more than a slice."""
    machine = make_world(1, make_spec(sched=sched))
    hog = add_hog(machine)
    wq = machine.alloc_workqueue("w", 0)
    item = Item(machine, 400_000)
    for round_ in range(200):
        machine.run(round_ * 7_130_000, END)
        machine.events.now_ns = max(machine.events.now_ns, round_ * 7_130_000)
        machine.enter_irq(0, 0)
        machine.queue_on(wq, item)
        machine.leave_irq()
    machine.run(1_450 * MS, END)
    machine.settle(1_450 * MS)
    waits = [end - 400_000 - at * 7_130_000 for at, end in enumerate(item.ends)][1:]
    assert len(waits) == 199
    assert max(waits) <= (0 if sched == "cfs" else 700_000)
    if sched == "eevdf":
        assert sum(waits) > 0
    worker = machine.pools.pools[0].workers[0]
    assert used(hog) + sum(used(w) for w in machine.pools.pools[0].workers) == 1_450 * MS
    assert worker.wait_ns >= sum(waits) // 2


def test_hogs_slow_down_by_capacity() -> None:
    """A hog's time is wall time, whatever the CPU's speed."""
    machine = make_world(2, make_spec(sched="eevdf", capacity=[512, 1024]))
    slow, fast = add_hog(machine, 0, [0]), add_hog(machine, 0, [1])
    machine.run(100 * MS, END)
    machine.settle(100 * MS)
    assert used(slow) == used(fast) == 100 * MS
