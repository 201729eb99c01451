"""A sleeping lock for tasks, shared or exclusive, first come first served: the inode's lock, and that of its extents.

Kernel: struct rw_semaphore, kernel/locking/rwsem.c, v6.12.
Differs: only who waits for the map's lock exclusively spins on an owner, and no one overtakes a waiter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

if TYPE_CHECKING:
    from blktwin.block.machine import Machine, Task


class Waiter:
    """One user's place in the queue of a lock; reused, in one queue at a time."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.is_exclusive: bool = False
        self.is_queued: bool = False
        self.has_lock: bool = False
        self.next: Waiter | None = None


class InodeLock:
    """The lock; nr_readers hold it shared, or is_written: one exclusively."""

    def __init__(self, machine: Machine) -> None:
        self.machine: Machine = machine
        self.nr_readers: i64 = 0
        self.is_written: bool = False
        self.is_spun_on: bool = False
        """Who wants it exclusively spins while another has it so: whoever holds it never sleeps."""
        self.passing_from_ns: i64 = 0
        """When the last one who took it shared in passing did so, on that one's clock, and when it gave it back."""
        self.passing_until_ns: i64 = 0
        self.head: Waiter | None = None
        self.tail: Waiter | None = None

    def try_shared(self) -> bool:
        """Take the lock shared unless somebody has it exclusively or waits for it."""
        if self.is_written or self.head is not None:
            return False
        self.nr_readers += 1
        return True

    def try_exclusive(self) -> bool:
        """Take the lock exclusively if nobody has it."""
        if self.is_written or self.nr_readers > 0 or self.head is not None:
            return False
        self.is_written = True
        return True

    def pass_by(self, from_ns: i64, until_ns: i64) -> None:
        """Note that somebody whose clock may be ahead holds it shared for that time."""
        if from_ns > self.passing_until_ns:
            self.passing_from_ns = from_ns
        if until_ns > self.passing_until_ns:
            self.passing_until_ns = until_ns

    def passed_at_ns(self, now_ns: i64) -> i64:
        """Return until when somebody who passes by holds it shared now; 0: nobody does."""
        return self.passing_until_ns if self.passing_from_ns <= now_ns < self.passing_until_ns else 0

    def acquire(self, waiter: Waiter, task: Task, is_exclusive: bool) -> bool:
        """Take the lock; False: the task waits, and calls again when it runs."""
        if waiter.has_lock:
            waiter.has_lock = False
            return True
        if waiter.is_queued:
            return False
        if self.try_exclusive() if is_exclusive else self.try_shared():
            return True
        waiter.task = task
        waiter.is_exclusive = is_exclusive
        waiter.is_queued = True
        waiter.next = None
        tail = self.tail
        if tail is None:
            self.head = waiter
        else:
            tail.next = waiter
        self.tail = waiter
        return False

    def release(self, is_exclusive: bool) -> None:
        """Give the lock back, and to those who come next."""
        if is_exclusive:
            assert self.is_written, "a lock that nobody has is released"
            self.is_written = False
        else:
            assert self.nr_readers > 0, "a lock that nobody has is released"
            self.nr_readers -= 1
        if self.head is not None:
            self.grant()

    def grant(self) -> None:
        """Hand the lock to the first waiter, and to the readers behind a reader."""
        while True:
            waiter = self.head
            if waiter is None or self.is_written or (waiter.is_exclusive and self.nr_readers > 0):
                return
            self.head = waiter.next
            if self.head is None:
                self.tail = None
            waiter.next = None
            waiter.is_queued = False
            waiter.has_lock = True
            if waiter.is_exclusive:
                self.is_written = True
            else:
                self.nr_readers += 1
            task = waiter.task
            assert task is not None
            if self.is_spun_on and waiter.is_exclusive:
                self.machine.end_spin(task)
            else:
                self.machine.wake_task(task)
