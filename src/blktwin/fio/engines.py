"""The synchronous I/O engines as they reach the block layer: under which plug, and who waits for what."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_OK
from blktwin.block.machine import Task
from blktwin.block.submit import about_to_sleep, finish_plug, resume_submission, start_plug
from blktwin.block.syscalls import SYS_PREAD, SYS_PWRITE
from blktwin.fio.ddir import WRITE
from blktwin.fio.job import (
    PHASE_DONE,
    PHASE_END_FSYNC,
    PHASE_FSYNC,
    PHASE_NEXT,
    PHASE_RATE,
    PHASE_START,
    PHASE_THINK,
    PHASE_WAIT,
    IoThread,
    op_of,
)
from blktwin.fio.pattern import NEXT_END, NEXT_IO, NEXT_SYNC
from blktwin.fio.unit import IoUnit

PHASE_O_SYNC: Final = 20
"""The flush that ends a write on a file opened with O_SYNC or O_DSYNC."""
BIO_MAX_BYTES: Final = 1_048_576
"""bdev.BIO_MAX_SECTORS."""


def submit_unit(thread: IoThread, task: Task, unit: IoUnit) -> bool:
    """Submit a unit's bios for task; False: the task sleeps in the submission."""
    file = unit.file
    bdev = file.bdev
    assert bdev is not None
    is_sync_write = thread.is_sync_write and unit.ddir == WRITE
    return bdev.direct_io(unit, op_of(unit.ddir), file.base_bytes + unit.offset, unit.nbytes, task, is_sync_write)


class SyncThread(IoThread):
    """psync, pvsync2 and sync: one I/O at a time, the submitter waits for it.

    Direct I/O reaches the block layer without a plug, but for writes under Rules.bdev_write_plug and for more than
    1 MiB.
    """

    unit: IoUnit

    def prepare(self) -> None:
        """Make the one unit."""
        self.unit = IoUnit(self, self.pattern.files[0])
        self.is_buffered: bool = not self.spec.direct
        self.is_asynchronously_done: bool = False

    def unit_done(self, unit: IoUnit) -> None:
        """Wake the waiting thread."""
        if self.machine.current is not self:
            self.machine.wake_task(self)

    def run(self) -> None:
        """Go on until the thread sleeps."""
        while True:
            phase = self.phase
            if phase == PHASE_WAIT:
                if self.is_blocked:
                    if not resume_submission(self):
                        return
                    self.leave_submission()
                if not self.unit.is_done:
                    if self.machine.has_preemption:
                        self.machine.cond_resched(self)
                    return
                if not self.io_done():
                    continue
                phase = PHASE_NEXT
            if phase == PHASE_NEXT:
                if not self.begin_next():
                    return
            elif phase == PHASE_RATE:
                if self.is_asleep():
                    return
                self.phase = PHASE_NEXT
                if not self.end_rate_sleep():
                    return
            elif phase == PHASE_THINK:
                if self.is_asleep():
                    return
                self.phase = PHASE_NEXT
            elif phase == PHASE_START:
                self.begin()
            elif phase == PHASE_DONE:
                return
            elif not self.run_fsync(phase):
                return

    def run_fsync(self, phase: i64) -> bool:
        """Go on with an fsync; False: the thread sleeps."""
        if not self.fsync_ended():
            return False
        if phase == PHASE_END_FSYNC:
            return self.stop_or_repeat()
        if phase == PHASE_O_SYNC:
            self.complete()
        else:
            self.stat.issued_alone(self.pattern.sync_ddir)
            self.book_fsync(self.machine.now_ns() - self.fsync_started_ns)
        self.phase = PHASE_NEXT
        return True

    def begin_next(self) -> bool:
        """Choose the next I/O and issue it; False: the thread sleeps or has ended."""
        now = self.machine.now_ns()
        if self.should_stop(now):
            return self.stop_or_repeat()
        pattern = self.pattern
        what = pattern.choose()
        if what == NEXT_IO:
            if self.has_rate:
                wait_ns = self.rate_wait_ns(now)
                if wait_ns > 0:
                    self.sleep_until(now + wait_ns, PHASE_RATE)
                    return False
            what = pattern.take(self.unit)
        return self.begin_chosen(what)

    def begin_chosen(self, what: i64) -> bool:
        """Issue what the pattern gave; False: the thread has ended."""
        if what == NEXT_IO:
            self.count_issue(self.unit)
            self.issue()
            return True
        if what == NEXT_SYNC:
            self.begin_fsync(self.pattern.file, PHASE_FSYNC)
            return True
        return self.stop_or_repeat()

    def end_rate_sleep(self) -> bool:
        """Issue the I/O that was waited for, unless the job's time is over; False: the thread has ended."""
        if self.is_terminated or self.machine.now_ns() >= self.stop_ns:
            return self.begin_chosen(NEXT_END)
        return self.begin_chosen(self.pattern.take(self.unit))

    def stop_or_repeat(self) -> bool:
        """End the pass: sync if end_fsync asks for it, then begin another or end the thread; False: it has ended."""
        if self.begin_end_fsync():
            return True
        if self.next_pass():
            self.phase = PHASE_NEXT
            return True
        self.finish()
        return False

    def issue(self) -> None:
        """Make the system call up to where it waits."""
        machine = self.machine
        trace = machine.trace
        unit = self.unit
        trace.user_io(self)
        now = machine.now_ns()
        unit.started_ns = now
        unit.issued_ns = now
        unit.is_done = False
        ddir = unit.ddir
        trace.sys_enter(self, SYS_PWRITE if ddir == WRITE else SYS_PREAD)
        trace.io_prep(self)
        self.phase = PHASE_WAIT
        bdev = unit.file.bdev
        assert bdev is not None
        offset = unit.file.base_bytes + unit.offset
        nbytes = unit.nbytes
        if ddir == WRITE and self.is_buffered:
            trace.page_copy(self, bdev.write_buffered(offset, nbytes))
            unit.status = BLK_STS_OK
            unit.is_done = True
            return
        if nbytes > BIO_MAX_BYTES or (ddir == WRITE and bdev.q.rules.bdev_write_plug):
            start_plug(self, self.own_plug)
        is_sync_write = ddir == WRITE and self.is_sync_write
        if bdev.direct_io(unit, op_of(ddir), offset, nbytes, self, is_sync_write) and self.plug is not None:
            self.leave_submission()

    def leave_submission(self) -> None:
        """Flush the call's plug: explicitly, or because the thread goes to sleep under it."""
        if self.plug is None:
            return
        unit = self.unit
        bdev = unit.file.bdev
        assert bdev is not None
        if bdev.q.rules.bdev_write_plug and unit.ddir == WRITE:
            if not unit.is_done:
                about_to_sleep(self.machine, self)
            self.plug = None
        else:
            finish_plug(self.machine, self)

    def io_done(self) -> bool:
        """Return from the system call; False when an O_SYNC flush or a pause comes first."""
        unit = self.unit
        if self.is_sync_write and unit.ddir == WRITE and unit.status == BLK_STS_OK:
            self.begin_fsync(unit.file, PHASE_O_SYNC)
            return False
        self.complete()
        if self.has_think and self.error == 0 and self.wants_think():
            self.think(unit.ddir)
            return False
        return True

    def complete(self) -> None:
        """Count the I/O."""
        unit = self.unit
        machine = self.machine
        machine.trace.sys_exit(self, SYS_PWRITE if unit.ddir == WRITE else SYS_PREAD, 1)
        self.stat.issued_alone(unit.ddir)
        self.book(unit, machine.now_ns())
        self.phase = PHASE_NEXT
