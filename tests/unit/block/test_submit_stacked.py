"""A driver that submits to a device below from its queue_rq(): the order of the task's bios, and whether it hangs."""

from __future__ import annotations

import pytest
from block_world import World

from blktwin.block.bio import BLK_STS_OK, Bio
from blktwin.block.driver import Driver
from blktwin.block.limits import QueueLimits
from blktwin.block.queue import RequestQueue
from blktwin.block.request import Request
from blktwin.block.submit import resume_submission, submit_bio


class LowerBio(Bio):
    """Carries one request down, and completes it at its end."""

    def __init__(self, rq: Request) -> None:
        super().__init__()
        self.rq = rq

    def end_io(self) -> None:
        """Complete the upper request."""
        self.rq.q.complete_here(self.rq, self.status)


class Stacked(Driver):
    """Sends every request down, in the context of who issues it."""

    def __init__(self, lower: RequestQueue) -> None:
        self.lower = lower

    def queue_rq(self, rq: Request, last: bool) -> int:
        """Start and pass down."""
        rq.q.start_request(rq)
        bio = LowerBio(rq)
        bio.op, bio.sector, bio.nr_sectors = rq.op, rq.sector, rq.nr_sectors
        submit_bio(self.lower, bio)
        return BLK_STS_OK


def stacked_world(lower_first: bool, depth: int) -> tuple[World, RequestQueue]:
    """Build a queue of 4 KiB requests and `depth` tags over the world's own."""
    world = World()
    limits = QueueLimits()
    limits.max_sectors = 8
    upper = RequestQueue(
        world.machine, world.rules, Stacked(world.q), limits, name="top", capacity_sectors=1 << 20, queue_depth=depth
    )
    upper.lower_first = lower_first
    return world, upper


def held(world: World) -> list[int]:
    """List the sectors that the device below holds."""
    return [int(rq.sector) for rq in world.device.held]


def complete_all(world: World) -> None:
    """Complete what the device holds."""
    for rq in world.device.held[:]:
        world.device.held.remove(rq)
        rq.q.complete_here(rq, BLK_STS_OK)


def test_lower_bios_last_is_a_deadlock() -> None:
    """One bio of more parts than tags: the bios that would give the tags back stand behind the part that waits."""
    world, upper = stacked_world(False, 4)
    task = world.task()
    bio = world.submit(task, 0, 64, q=upper)
    assert task.is_blocked
    assert held(world) == []
    assert bio.ends == []


def test_lower_first_makes_progress() -> None:
    """The same goes on with lower bios first, in order, and ends."""
    world, upper = stacked_world(True, 4)
    task = world.task()
    bio = world.submit(task, 0, 64, q=upper)
    assert task.is_blocked
    assert held(world) == [0, 8, 16, 24]
    seen = held(world)
    for _ in range(8):
        complete_all(world)
        world.machine.current = task
        resume_submission(task)
        seen += held(world)
        if len(seen) == 8:
            break
    assert seen == [0, 8, 16, 24, 32, 40, 48, 56]
    complete_all(world)
    assert bio.ends == [BLK_STS_OK]
    assert upper.nr_freed == 8 == world.q.nr_freed
    assert not task.is_submitting
    assert task.bio_list is None


@pytest.mark.parametrize("lower_first", [False, True])
def test_order_of_parts(lower_first: bool) -> None:
    """With tags for all, both orders bring the same parts down; only lower-first before the next part is issued."""
    world, upper = stacked_world(lower_first, 64)
    task = world.task()
    world.submit(task, 0, 24, q=upper)
    assert held(world) == [0, 8, 16]
    issued = world.trace.of("D")
    assert issued == ([0, 0, 8, 8, 16, 16] if lower_first else [0, 8, 16, 0, 8, 16])


def test_a_waiter_with_lower_bios_leaves_the_wait_queue() -> None:
    """A part that goes behind lower bios gives up its place among those who wait for a tag, then takes one again."""
    world, upper = stacked_world(True, 1)
    other = world.task()
    task = world.task()
    first = world.submit(other, 800, 8, q=upper)
    bio = world.submit(task, 0, 16, q=upper)
    assert task.is_blocked
    assert upper.hctxs[0].tags.nr_waiting == 1
    complete_all(world)
    assert first.ends == [BLK_STS_OK]
    world.machine.current = task
    resume_submission(task)
    assert held(world) == [0]
    assert upper.hctxs[0].tags.nr_waiting == 1
    complete_all(world)
    world.machine.current = task
    resume_submission(task)
    complete_all(world)
    assert bio.ends == [BLK_STS_OK]
