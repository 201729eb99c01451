"""Who executes commands in a task of its own: one worker for each cgroup and one for the rest, or one for each command.

Kernel: struct loop_worker, loop_queue_work(), loop_process_work() and loop_free_idle_workers(),
drivers/block/loop.c, v6.12.
Differs: the idle timer is not deferrable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.cgroup import Cgroup
from blktwin.block.machine import BlockingWork, Machine, Task, Timer
from blktwin.drivers.loop.command import LoopCommand

if TYPE_CHECKING:
    from blktwin.drivers.loop.driver import LoopDriver

IDLE_WORKER_NS: Final = 60_000_000_000
"""So long a worker without commands is kept."""


class LoopWorker(BlockingWork):
    """Executes the commands of one cgroup, one after the other; the root worker those of nobody else."""

    def __init__(self, driver: LoopDriver, cgroup: Cgroup | None) -> None:
        super().__init__()
        self.driver: LoopDriver = driver
        self.cgroup: Cgroup | None = cgroup
        """None for the root worker."""
        self.head: LoopCommand | None = None
        self.tail: LoopCommand | None = None
        self.executing: LoopCommand | None = None
        """The command in which it sleeps."""
        self.stale: LoopCommand | None = None
        """A command that the hint's counter has still to hear of (hint_use_after_completion)."""
        self.is_idle: bool = False
        self.idle_prev: LoopWorker | None = None
        self.idle_next: LoopWorker | None = None
        self.last_ran_ns: i64 = 0

    def add(self, cmd: LoopCommand) -> None:
        """Put a command last."""
        cmd.next = None
        tail = self.tail
        if self.head is None or tail is None:
            self.head = cmd
        else:
            tail.next = cmd
        self.tail = cmd

    def advance(self, worker: Task) -> bool:
        """Execute commands until there are none, one by one.

        Kernel: loop_process_work(), drivers/block/loop.c, v6.12.
        """
        driver = self.driver
        machine = driver.machine
        while True:
            cmd = self.executing
            if cmd is None:
                cmd = self.head
                if cmd is None:
                    self.keep_stale(None)
                    break
                if machine.is_to_come(worker, cmd.queued_at_ns):
                    return False
                self.head = cmd.next
                cmd.next = None
                self.executing = cmd
            is_counted = cmd.is_counted
            if not driver.execute(cmd, worker):
                return False
            # From here on the command may serve another request.
            self.executing = None
            if driver.counts_stale:
                self.keep_stale(cmd)
            elif is_counted:
                driver.write_submitted()
            if machine.cond_resched(worker):
                return False
        if not self.is_pending:
            self.last_ran_ns = machine.now_ns()
            if self.cgroup is not None:
                driver.idle_workers.append(self)
        return True

    def keep_stale(self, cmd: LoopCommand | None) -> None:
        """Count the command before this one only now, as if the worker had been preempted since its submission."""
        stale = self.stale
        self.stale = cmd
        if stale is not None:
            self.driver.count_stale(stale)


class CommandWork(BlockingWork):
    """The work item of one command, where each has its own (per_command)."""

    def __init__(self, cmd: LoopCommand) -> None:
        super().__init__()
        self.cmd: LoopCommand = cmd

    def advance(self, worker: Task) -> bool:
        """Execute the command."""
        cmd = self.cmd
        driver = cmd.driver
        is_counted = cmd.is_counted
        if not driver.execute(cmd, worker):
            return False
        if is_counted:
            driver.write_submitted()
        return True


class IdleWorkers(Timer):
    """The workers without commands, longest idle first, and the timer that frees them."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine: Machine = machine
        self.by_serial: list[LoopWorker | None] = []
        """All workers of cgroups, by the cgroup's serial."""
        self.head: LoopWorker | None = None
        self.tail: LoopWorker | None = None
        self.count: i64 = 0
        self.is_armed: bool = False
        self.nr_made: i64 = 0
        self.nr_freed: i64 = 0

    def find(self, cgroup: Cgroup) -> LoopWorker | None:
        """Return the cgroup's worker, if there is one."""
        serial = cgroup.serial
        return self.by_serial[serial] if serial < len(self.by_serial) else None

    def make(self, driver: LoopDriver, cgroup: Cgroup) -> LoopWorker:
        """Make the cgroup's worker; it holds a reference on the cgroup."""
        worker = LoopWorker(driver, cgroup)
        while len(self.by_serial) <= cgroup.serial:
            self.by_serial.append(None)
        self.by_serial[cgroup.serial] = worker
        self.nr_made += 1
        return worker

    def append(self, worker: LoopWorker) -> None:
        """Take a worker that has become idle, and see that the timer runs."""
        worker.is_idle = True
        tail = self.tail
        worker.idle_prev = tail
        worker.idle_next = None
        if tail is None:
            self.head = worker
        else:
            tail.idle_next = worker
        self.tail = worker
        self.count += 1
        self.reduce_timer()

    def remove(self, worker: LoopWorker) -> None:
        """Take a worker out: it has a command again, or goes."""
        worker.is_idle = False
        before = worker.idle_prev
        behind = worker.idle_next
        if before is None:
            self.head = behind
        else:
            before.idle_next = behind
        if behind is None:
            self.tail = before
        else:
            behind.idle_prev = before
        worker.idle_prev = None
        worker.idle_next = None
        self.count -= 1

    def reduce_timer(self) -> None:
        """Arm the timer; one that runs already fires no later.

        Kernel: loop_set_timer(), drivers/block/loop.c, v6.12.
        """
        if not self.is_armed:
            self.is_armed = True
            self.machine.arm_timer(self, self.machine.now_ns() + IDLE_WORKER_NS)

    def fire(self) -> None:
        """Free those that have been idle for long."""
        self.is_armed = False
        self.free_idle(False)

    def free_idle(self, is_all: bool) -> None:
        """Free the workers that have been idle for 60 s, or all idle ones.

        Kernel: loop_free_idle_workers(), drivers/block/loop.c, v6.12.
        """
        now_ns = self.machine.now_ns()
        worker = self.head
        while worker is not None:
            if not is_all and worker.last_ran_ns + IDLE_WORKER_NS > now_ns:
                break
            assert worker.head is None, "a worker with commands is freed"
            assert not worker.is_pending, "a worker that is to run is freed"
            self.remove(worker)
            cgroup = worker.cgroup
            assert cgroup is not None
            self.by_serial[cgroup.serial] = None
            self.nr_freed += 1
            worker = self.head
        if worker is not None:
            self.reduce_timer()

    def stop(self) -> None:
        """Free all workers, which must be idle, and stop the timer."""
        self.free_idle(True)
        if self.is_armed:
            self.is_armed = False
            self.machine.cancel_timer(self)
