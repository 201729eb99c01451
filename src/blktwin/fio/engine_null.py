"""The null engine: every I/O is done at once; nothing reaches a device.

With iodepth=1 it is synchronous; with more, fio queues a batch, and the next I/O reaps it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_OK
from blktwin.fio.ddir import TRIM
from blktwin.fio.job import PHASE_DONE, PHASE_DRAIN, PHASE_NEXT, PHASE_RATE, PHASE_START, PHASE_THINK, IoThread
from blktwin.fio.pattern import NEXT_END, NEXT_IO, NEXT_SYNC
from blktwin.fio.unit import IoUnit, UnitFifo

NULL_BATCH: Final = 256
"""I/Os between two looks at other events."""


class NullThread(IoThread):
    """iodepth=1."""

    def prepare(self) -> None:
        """Make the unit."""
        self.unit: IoUnit = IoUnit(self, self.pattern.files[0])

    def run(self) -> None:
        """Do a number of I/Os, then let other events happen."""
        machine = self.machine
        if self.phase == PHASE_START:
            self.begin()
        if self.phase == PHASE_DONE:
            return
        if (self.phase == PHASE_RATE or self.phase == PHASE_THINK) and self.is_asleep():
            return
        for _ in range(NULL_BATCH):
            if self.phase == PHASE_DRAIN:
                self.finish()
                return
            if not self.one():
                return
        machine.wake_task(self)

    def one(self) -> bool:
        """Do one I/O; False: the thread sleeps."""
        what = self.next_what()
        if what == NEXT_END:
            if self.phase == PHASE_RATE:
                return False
            self.end_pass()
            return True
        unit = self.unit
        if what == NEXT_SYNC:
            unit.ddir = self.pattern.sync_ddir
            self.machine.trace.user_io(self)
            self.stat.issued(unit.ddir, 1)
            self.book_fsync(0)
            return True
        self.count_issue(unit)
        self.mark_start(unit)
        self.stat.issued(unit.ddir, 1)
        self.book(unit, self.machine.now_ns())
        if self.has_think and self.wants_think():
            self.think(unit.ddir)
            return False
        return True

    def next_what(self) -> i64:
        """Choose what comes next; NEXT_END in PHASE_RATE: the thread sleeps until it is due."""
        now = self.machine.now_ns()
        pattern = self.pattern
        if self.phase == PHASE_RATE:
            self.phase = PHASE_NEXT
            return NEXT_END if self.is_terminated or now >= self.stop_ns else pattern.take(self.unit)
        self.phase = PHASE_NEXT
        if self.should_stop(now):
            return NEXT_END
        what = pattern.choose()
        if what != NEXT_IO:
            return what
        wait_ns = self.rate_wait_ns(now) if self.has_rate else 0
        if wait_ns > 0:
            self.quiesce(1)
            self.sleep_until(now + wait_ns, PHASE_RATE)
            return NEXT_END
        return pattern.take(self.unit)

    def mark_start(self, unit: IoUnit) -> None:
        """Start an I/O's clocks; it cannot fail."""
        machine = self.machine
        unit.started_ns = machine.now_ns()
        unit.issued_ns = unit.started_ns
        unit.status = BLK_STS_OK
        machine.trace.user_io(self)

    def end_pass(self) -> None:
        """Begin another pass, or end the thread."""
        if not self.next_pass():
            self.phase = PHASE_DRAIN

    def quiesce(self, nr_chosen: i64) -> None:
        """Finish what is queued: nothing here."""

    def unit_done(self, unit: IoUnit) -> None:
        """Never called: no bio is submitted."""


class NullQueueThread(NullThread):
    """iodepth above 1: a batch that is handed over is done, and nothing more is queued before that is reaped."""

    def prepare(self) -> None:
        """Make the units."""
        spec = self.spec
        super().prepare()
        self.batch: i64 = min(max(1, spec.iodepth_batch), spec.iodepth)
        self.is_polling: bool = spec.iodepth_batch_complete_min == 0 and spec.iodepth_batch_complete_max == 0
        self.free: UnitFifo = UnitFifo()
        self.queued: UnitFifo = UnitFifo()
        self.done: UnitFifo = UnitFifo()
        for _ in range(spec.iodepth):
            self.free.append(IoUnit(self, self.pattern.files[0]))
        self.unit = self.free.pop()
        self.nr_unmarked: i64 = 0

    def one(self) -> bool:
        """Queue one I/O; False: the thread sleeps."""
        what = self.next_what()
        if what == NEXT_END:
            if self.phase == PHASE_RATE:
                return False
            self.hand_over()
            if self.done.count > 0:
                self.reap()
            self.end_pass()
            return True
        unit = self.unit
        if what == NEXT_SYNC:
            unit.ddir = self.pattern.sync_ddir
            unit.nbytes = 0
        else:
            self.count_issue(unit)
        self.mark_start(unit)
        if self.done.count > 0:
            # Busy: fio reaps, and tries again.
            self.mark_depth(self.done.count)
            self.reap()
        self.queue(unit)
        if unit.ddir <= TRIM and self.has_think and self.wants_think():
            self.quiesce(0)
            self.think(unit.ddir)
            return False
        return True

    def queue(self, unit: IoUnit) -> None:
        """Queue a unit; hand a full batch over, and reap when no unit is left."""
        self.stat.queued(unit.ddir)
        self.queued.append(unit)
        self.pass_bytes += unit.nbytes
        self.nr_outstanding += 1
        self.nr_unmarked += 1
        depth = self.queued.count + self.done.count
        if self.nr_unmarked >= self.batch:
            self.mark_depth(depth)
            self.hand_over()
        if self.free.count == 0 or self.is_polling:
            self.hand_over()
            self.reap()
        self.unit = self.free.pop()

    def mark_depth(self, depth: i64) -> None:
        """Mark what was queued since the last time as issued at a depth."""
        if self.nr_unmarked > 0:
            self.stat.committed(self.nr_unmarked, depth)
            self.nr_unmarked = 0

    def hand_over(self) -> None:
        """Submit what is queued: it is done then."""
        nr = self.queued.count
        if nr == 0:
            return
        now = self.machine.now_ns()
        self.stat.submitted(nr)
        for _ in range(nr):
            unit = self.queued.pop()
            self.stat.add_slat(unit.ddir, now - unit.started_ns)
            unit.issued_ns = now
            self.done.append(unit)

    def reap(self) -> None:
        """Fetch and book all that is done."""
        now = self.machine.now_ns()
        nr = self.done.count
        self.stat.reaped(nr)
        self.nr_outstanding -= nr
        for _ in range(nr):
            unit = self.done.pop()
            if unit.ddir <= TRIM:
                self.book(unit, now)
            else:
                self.book_fsync(now - unit.issued_ns)
            self.free.append(unit)

    def quiesce(self, nr_chosen: i64) -> None:
        """Hand over and reap all, marking it as issued; what is chosen already counts in its depth."""
        self.mark_depth(self.queued.count + self.done.count + nr_chosen)
        self.hand_over()
        if self.done.count > 0:
            self.reap()
