"""Tags: exhaustion, shallow depths, fair waiters, batch wake-ups, and a submission that sleeps and goes on."""

from __future__ import annotations

import pytest
from block_world import HandTask, World

from blktwin.block.bio import BLK_STS_AGAIN, REQ_NOWAIT
from blktwin.block.deadline import Deadline
from blktwin.block.tags import Tags


def waiting(world: World, tags: Tags, count: int) -> list[HandTask]:
    """Put count tasks to sleep."""
    tasks = [world.task() for _ in range(count)]
    for task in tasks:
        tags.wait(task)
    return tasks


def test_each_tag_is_given_once() -> None:
    """As many as there are, then none, and the freed one again."""
    tags = Tags(3, World().machine)
    taken = [int(tags.get(0)) for _ in range(3)]
    assert sorted(taken) == [0, 1, 2]
    assert tags.get(0) == -1
    tags.put(1)
    assert tags.get(0) == 1
    assert tags.in_use() == 3


def test_a_tag_is_not_freed_twice() -> None:
    """The kernel would lose count."""
    tags = Tags(2, World().machine)
    tag = tags.get(0)
    tags.put(tag)
    with pytest.raises(AssertionError, match="freed twice"):
        tags.put(tag)


def test_a_shallow_depth_leaves_tags_to_others() -> None:
    """With half the depth the other half stays free for a full-depth get."""
    tags = Tags(4, World().machine)
    assert [int(tags.get(2)) >= 0 for _ in range(3)] == [True, True, False]
    assert tags.get(0) >= 0


@pytest.mark.parametrize(("depth", "batch"), [(1, 1), (8, 1), (15, 1), (16, 2), (64, 8), (128, 8), (1024, 8)])
def test_wake_batch(depth: int, batch: int) -> None:
    """An eighth of the depth, 1 to 8."""
    assert Tags(depth, World().machine).wake_batch == batch


def test_waiters_are_woken_in_batches() -> None:
    """Depth 32: four tags come back before four tasks are woken, one after another from one wait queue's turn."""
    world = World()
    tags = Tags(32, world.machine)
    for _ in range(32):
        tags.get(0)
    waiting(world, tags, 6)
    for tag in range(3):
        tags.put(tag)
    assert world.machine.woken == []
    tags.put(3)
    assert len(world.machine.woken) == 4
    assert tags.nr_waiting == 2


def test_waiters_are_fair() -> None:
    """Waiters stand in eight queues; each round takes from the next queue, first come first served in each."""
    world = World()
    tags = Tags(8, world.machine)
    for _ in range(8):
        tags.get(0)
    tasks = waiting(world, tags, 20)
    for tag in range(8):
        tags.put(tag)
    for _ in range(12):
        tags.put(tags.get(0))
    assert world.machine.woken == tasks


def test_frees_before_anyone_waits_are_not_counted() -> None:
    """A wake-up needs a batch of frees since somebody waits."""
    world = World()
    tags = Tags(16, world.machine)
    for _ in range(16):
        tags.get(0)
    tags.put(0)
    tags.get(0)
    waiting(world, tags, 1)
    tags.put(1)
    assert world.machine.woken == []
    tags.put(2)
    assert len(world.machine.woken) == 1


def test_a_waiter_woken_by_something_else_leaves_its_queue() -> None:
    """From its head, which the next one of that queue takes."""
    world = World()
    tags = Tags(8, world.machine)
    for _ in range(8):
        tags.get(0)
    tasks = waiting(world, tags, 24)
    gone = tasks[8].tag_waiter
    assert gone is not None
    tags.finish_wait(gone)
    tags.finish_wait(gone)
    assert tags.nr_waiting == 23
    for _ in range(23):
        tags.put(0)
        tags.get(0)
    assert world.machine.woken == [*tasks[:8], tasks[16], *tasks[9:16], *tasks[17:]]


def test_a_submission_sleeps_for_a_tag_and_goes_on() -> None:
    """The third bio finds no tag: its task sleeps, what follows queues behind it, and a free tag lets both go on."""
    world = World(depth=2)
    first, second = world.task(), world.task()
    world.submit(first, 0)
    world.submit(first, 100)
    sleeper = world.submit(second, 200)
    assert world.is_blocked(second)
    behind = world.submit(second, 300)
    assert world.trace.letters().endswith("QWQ")
    assert world.issued() == [0, 100]
    world.complete()
    assert world.machine.woken == [second]
    assert not world.resume(second), "one tag for two bios"
    assert world.issued() == [100, 200]
    world.complete()
    assert world.resume(second)
    assert not world.is_blocked(second)
    assert not second.is_submitting
    world.complete_all()
    assert sleeper.ends == behind.ends == [0]
    world.check_quiet()


def test_a_newcomer_may_take_the_tag_of_a_woken_waiter() -> None:
    """Then the waiter sleeps again, and the next free tag wakes it again."""
    world = World(depth=1)
    first, slow, quick = world.task(), world.task(), world.task()
    world.submit(first, 0)
    world.submit(slow, 100)
    world.complete()
    assert world.machine.woken == [slow]
    world.submit(quick, 200)
    assert not world.is_blocked(quick)
    assert not world.resume(slow)
    world.complete()
    assert world.machine.woken == [slow, slow]
    assert world.resume(slow)
    world.complete_all()
    world.check_quiet()


def test_a_waiter_that_moved_to_another_queue_passes_its_wake_up_on() -> None:
    """It takes a tag where it runs now; another waiter of its old queue gets the free one."""
    world = World(depth=1, cpus=2, hw_queues=2)
    holder, mover, other = world.task(0), world.task(0), world.task(0)
    world.submit(holder, 0)
    world.submit(mover, 100)
    world.submit(other, 200)
    world.complete()
    assert world.machine.woken == [mover]
    mover.cpu = 1
    assert world.resume(mover)
    assert world.machine.woken == [mover, other]
    assert world.resume(other)
    world.complete_all()
    world.check_quiet()


def test_a_nowait_bio_never_sleeps() -> None:
    """It fails with EAGAIN instead."""
    world = World(depth=1)
    task = world.task()
    world.submit(task, 0)
    bio = world.submit(task, 100, flags=REQ_NOWAIT)
    assert bio.ends == [BLK_STS_AGAIN]
    assert not world.is_blocked(task)


def test_a_sleeper_hands_over_its_plug() -> None:
    """What it has plugged leaves first, through kblockd, or it would wait for itself."""
    world = World(depth=2)
    task = world.task()
    world.plug(task)
    world.submit(task, 0)
    world.submit(task, 100)
    world.submit(task, 200)
    assert world.is_blocked(task)
    assert world.trace.of("T") == [2]
    assert world.issued() == []
    world.machine.run_works()
    assert world.issued() == [0, 100]
    world.complete()
    assert world.resume(task)
    world.unplug(task)
    world.complete_all()
    world.check_quiet()


def test_scheduler_tags_wait_apart_from_driver_tags() -> None:
    """With an elevator nr_requests limits the submitters, the depth only the device."""
    world = World(depth=1, nr_requests=4, elevator=Deadline())
    task = world.task()
    for at in range(4):
        world.submit(task, at * 100)
    assert not world.is_blocked(task)
    world.submit(task, 900)
    assert world.is_blocked(task)
    # Having no scheduler tag, it has run the queue.
    assert len(world.issued()) == 1
    world.complete()
    assert world.resume(task)
    world.complete_all()
    world.check_quiet()


def test_mq_deadline_wakes_one_by_one() -> None:
    """It may limit writes to one tag, so a batch of more might never come free."""
    world = World(depth=64, elevator=Deadline())
    tags = world.q.hctxs[0].sched_tags
    assert tags is not None
    assert tags.depth == 128
    assert tags.wake_batch == 1


def test_each_hardware_queue_has_its_own_scheduler_tags() -> None:
    """A full queue does not stop the submitters of another."""
    world = World(depth=2, nr_requests=1, cpus=2, hw_queues=2, elevator=Deadline())
    on_0, on_1 = world.task(0), world.task(1)
    world.submit(on_0, 0)
    world.submit(on_1, 100)
    assert not world.is_blocked(on_1)
    world.complete_all()
    world.check_quiet()


def test_readers_do_not_lock_out_writers_with_a_shallow_depth() -> None:
    """The limit is on those who ask with it: tags that others hold do not count."""
    tags = Tags(16, World().machine)
    readers = [tags.get(0) for _ in range(8)]
    assert min(readers) >= 0
    writers = [tags.get(4) for _ in range(5)]
    assert [tag >= 0 for tag in writers] == [True, True, True, True, False]
    tags.put(writers[0])
    assert tags.get(4) >= 0
