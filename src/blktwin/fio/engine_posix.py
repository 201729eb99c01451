"""posixaio: glibc's helper thread serves a file's requests one after the other, with pread, pwrite and fsync.

fio counts each I/O as submitted and reaped by itself when it is queued, and reaps all that is done whatever
iodepth_batch_complete_max says.
Differs: one helper serves all files of a thread; glibc has one per file.
"""

from __future__ import annotations

from mypy_extensions import i64

from blktwin.block.bdev import FsyncCall
from blktwin.block.bio import BLK_STS_OK
from blktwin.block.cgroup import Cgroup
from blktwin.block.machine import Task
from blktwin.block.submit import resume_submission
from blktwin.fio.ddir import SYNC, TRIM
from blktwin.fio.engine_aio import AsyncThread
from blktwin.fio.engine_helper import HELPER_PIDS
from blktwin.fio.engines import submit_unit
from blktwin.fio.unit import IoUnit, UnitFifo


class AioHelper(Task):
    """glibc's aio thread."""

    def __init__(self, owner: PosixAioThread, pid: int) -> None:
        super().__init__(pid, "fio", owner.cgroup)
        self.owner: PosixAioThread = owner
        self.ioprio = owner.ioprio
        self.waiting: UnitFifo = UnitFifo()
        self.serving: IoUnit | None = None
        self.call: FsyncCall | None = None
        self.is_served: bool = False

    def run(self) -> None:
        """Serve until nothing waits."""
        owner = self.owner
        trace = owner.machine.trace
        while True:
            unit = self.serving
            if unit is not None:
                if not self.has_ended(unit):
                    return
                trace.sys_exit(self, owner.events_call, 1)
                self.serving = None
                owner.helper_done(unit)
            if self.waiting.count == 0:
                return
            unit = self.waiting.pop()
            self.serving = unit
            self.is_served = False
            trace.sys_enter(self, owner.events_call)
            trace.io_prep(self)
            if unit.ddir < SYNC:
                submit_unit(owner, self, unit)
            else:
                self.begin_sync(unit)

    def begin_sync(self, unit: IoUnit) -> None:
        """Enter fsync()."""
        handle = unit.file.handle
        assert handle is not None
        call = self.call
        if call is None or call.file is not handle:
            self.call = FsyncCall(handle, self)

    def has_ended(self, unit: IoUnit) -> bool:
        """Go on with the unit that is served; True when it has ended."""
        if unit.ddir < SYNC:
            if self.is_blocked and not resume_submission(self):
                return False
            return self.is_served
        call = self.call
        assert call is not None
        if not call.advance():
            return False
        if call.status != BLK_STS_OK:
            self.owner.fail_sync(call.status)
        return True


class PosixAioThread(AsyncThread):
    """posixaio: every unit goes to glibc's helper thread, so one file never sees more than one I/O at a time."""

    def prepare(self) -> None:
        """Make the units and the helper."""
        super().prepare()
        self.helper: AioHelper = AioHelper(self, self.pid + HELPER_PIDS)
        self.helper.cpu = self.cpu
        self.hands_over_at_once = True

    def move_to(self, cgroup: Cgroup) -> None:
        """Go there with the helper."""
        super().move_to(cgroup)
        self.helper.cgroup = cgroup

    def is_busy(self) -> bool:
        """Say whether a trim must wait: until all has been reaped."""
        return self.nr_outstanding > 0

    def go_on_submitting(self) -> bool:
        """Hand the units to the helper."""
        machine = self.machine
        stat = self.stat
        while self.committing.count > 0:
            unit = self.committing.pop()
            self.helper.waiting.append(unit)
            now = machine.now_ns()
            stat.add_slat(unit.ddir, now - unit.started_ns)
            unit.issued_ns = now
            stat.submitted(1)
            stat.reaped(1)
        if self.helper.serving is None:
            machine.wake_task(self.helper)
        machine.trace.sys_exit(self, self.submit_call, int(self.nr_commit))
        self.phase = self.after_submit
        return True

    def unit_done(self, unit: IoUnit) -> None:
        """Wake the helper, which waits for this I/O; a trim is the thread's own."""
        if unit.ddir == TRIM:
            super().unit_done(unit)
            return
        self.helper.is_served = True
        if self.machine.current is not self.helper:
            self.machine.wake_task(self.helper)

    def nr_to_reap(self) -> i64:
        """Return how many of the done units this call fetches: all."""
        return self.done.count
