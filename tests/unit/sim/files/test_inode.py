"""The inode's lock: shared, exclusive, first come first served, and only waking."""

from __future__ import annotations

from block_world import HandMachine
from hypothesis import given
from hypothesis import strategies as st

from blktwin.sim.files.inode import InodeLock, Waiter


class User:
    """A task with its place in the queue."""

    def __init__(self, machine: HandMachine) -> None:
        self.task = machine.workers[0].__class__(1, "user", machine.cgroups.root)
        self.waiter = Waiter()
        self.is_exclusive = False
        self.has_lock = False


def test_try() -> None:
    """Readers share; a writer is alone; nobody who tries passes a waiter."""
    machine = HandMachine(1, 250)
    lock = InodeLock(machine)
    user = User(machine)
    assert lock.try_shared()
    assert lock.try_shared()
    assert not lock.try_exclusive()
    assert not lock.acquire(user.waiter, user.task, True)
    assert not lock.try_shared(), "a writer waits"
    lock.release(False)
    assert machine.woken == []
    lock.release(False)
    assert machine.woken == [user.task]
    assert not lock.try_shared(), "it is the writer's before that runs"
    assert lock.acquire(user.waiter, user.task, True)
    assert not lock.try_exclusive()
    lock.release(True)
    assert lock.try_exclusive()


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=40))
def test_lock(acts: list[tuple[int, bool]]) -> None:
    """Each act: a user without the lock asks for it, one with it gives it back; order and exclusion hold throughout."""
    machine = HandMachine(1, 250)
    lock = InodeLock(machine)
    users = [User(machine) for _ in range(5)]
    queue: list[User] = []
    for number, is_exclusive in acts:
        user = users[number]
        if user.has_lock:
            user.has_lock = False
            lock.release(user.is_exclusive)
        elif user in queue:
            assert not lock.acquire(user.waiter, user.task, user.is_exclusive), "a spurious wake-up gave a lock"
        else:
            user.is_exclusive = is_exclusive
            if lock.acquire(user.waiter, user.task, is_exclusive):
                assert not queue, "a waiter was passed"
                user.has_lock = True
            else:
                queue.append(user)
        for woken in machine.woken:
            first = queue.pop(0)
            assert first.task is woken, "not the first of the queue"
            assert lock.acquire(first.waiter, first.task, first.is_exclusive)
            first.has_lock = True
        machine.woken.clear()
        holders = [user for user in users if user.has_lock]
        assert len(holders) == 1 or not any(user.is_exclusive for user in holders)
        assert not queue or holders, "all wait for nobody"
        if queue and not queue[0].is_exclusive:
            assert holders[0].is_exclusive, "a reader waits behind readers"


def test_who_passes_by() -> None:
    """Only who comes while a look-up runs waits for its end, also when its clock is behind that one's."""
    lock = InodeLock(HandMachine(1, 250))
    lock.pass_by(1000, 1500)
    assert [int(lock.passed_at_ns(at)) for at in (999, 1000, 1499, 1500)] == [0, 1500, 1500, 0]
    lock.pass_by(1400, 1800)
    assert [int(lock.passed_at_ns(at)) for at in (1000, 1600)] == [1800, 1800]
    lock.pass_by(3000, 3100)
    assert [int(lock.passed_at_ns(at)) for at in (1600, 3050)] == [0, 3100]
