"""null_blk's model: one time for all, whatever the load, up to its depth and queues."""

from __future__ import annotations

import pytest
from closed_loop import World, random_io, read, write

from blktwin.errors import UsageError


def test_latency_is_the_same_at_any_depth() -> None:
    """64 in flight take as long as one."""
    for depth in (1, 64):
        world = World("/dev/nullb0,latency=100us,depth=64")
        world.job(random_io(1, 0, 8, 200), depth)
        world.run()
        world.check_conservation()
        assert {done.ns for done in world.jobs[0].done} == {100_000}


def test_depth_bounds_what_is_in_flight() -> None:
    """With 4 tags, 16 bios take four rounds."""
    world = World("/dev/nullb0,latency=10us,depth=4")
    world.job(random_io(1, 1, 8, 16), 16)
    world.run()
    world.check_conservation()
    assert sorted(done.done_ns for done in world.jobs[0].done) == sorted(10_000 * (1 + at // 4) for at in range(16))


def test_each_queue_has_its_own_depth() -> None:
    """Two queues of one tag serve two CPUs at once, one queue serves them in turn."""
    for queues, last in ((1, 20_000), (2, 10_000)):
        world = World(f"/dev/nullb0,latency=10us,depth=1,queues={queues}", cpus=2)
        for cpu in range(2):
            world.job(lambda number: read(0) if number == 0 else None, cpu=cpu)
        world.run()
        assert max(done.done_ns for job in world.jobs for done in job.done) == last
        assert len(world.q.hctxs) == queues


def test_never_more_queues_than_cpus() -> None:
    """The kernel clamps submit_queues to the CPUs."""
    assert len(World("/dev/nullb0,queues=64", cpus=3).q.hctxs) == 3


def test_completion_needs_no_softirq_of_blk_mq() -> None:
    """The timer's interrupt ends the request itself: one event for the device, one for the task."""
    world = World("/dev/nullb0,latency=10us")
    world.job(lambda number: write(0) if number < 10 else None)
    world.run()
    assert world.machine.events.nr_fired == 21


def test_it_takes_one_time() -> None:
    """A spread is refused: null_blk has none."""
    with pytest.raises(UsageError, match="takes one time"):
        World("/dev/nullb0,latency=uniform(10us,5%)")
