"""fio's queue between a job and an asynchronous engine: units queued, handed over, in flight, done, reaped.

fio marks a batch as issued when iodepth_batch units are queued, but hands over what is queued before each wait too
without marking it: nr_unmarked and queued are two counts, as in fio.
Differs: with iodepth_batch_complete_min=0 fio polls for its completion; here the thread sleeps until it is there.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.cgroup import Cgroup
from blktwin.block.submit import about_to_sleep, finish_plug, start_plug
from blktwin.block.syscalls import SYS_IO_GETEVENTS, SYS_IO_SUBMIT, SYS_IO_URING_ENTER
from blktwin.fio.ddir import SYNC, TRIM
from blktwin.fio.engine_helper import HELPER_PIDS, SyncHelper
from blktwin.fio.engines import submit_unit
from blktwin.fio.job import PHASE_NEXT, IoThread
from blktwin.fio.unit import IoUnit, UnitFifo

PHASE_SUBMIT_CALL: Final = 20
PHASE_SUBMIT_GO_ON: Final = 21
PHASE_REAP: Final = 22
PHASE_EVENTS: Final = 23
PHASE_THINK_QUIESCE: Final = 24
PHASE_SUBMIT_END: Final = 27
PLUG_MIN_BATCH: Final = 2
"""A submission call of more than this many I/Os brings a plug."""


class QueueThread(IoThread):
    """A thread with up to iodepth units queued or in flight; engine_aio.py says what it does next."""

    def prepare(self) -> None:
        """Make the units."""
        spec = self.spec
        self.free: UnitFifo = UnitFifo()
        self.queued: UnitFifo = UnitFifo()
        self.committing: UnitFifo = UnitFifo()
        self.done: UnitFifo = UnitFifo()
        for _ in range(spec.iodepth):
            self.free.append(IoUnit(self, self.pattern.files[0]))
        self.unit: IoUnit = IoUnit(self, self.pattern.files[0])
        self.depth: i64 = 0
        """Units chosen, queued, in flight, or done and not yet reaped."""
        self.nr_unmarked: i64 = 0
        """Queued since fio last marked a batch as issued."""
        self.needed: i64 = 0
        self.is_waiting: bool = False
        self.after_submit: i64 = PHASE_REAP
        self.after_reap: i64 = PHASE_NEXT
        self.nr_commit: i64 = 0
        self.issued_units: list[IoUnit] = []
        """Submitted by the call that runs."""
        self.is_entered: bool = False
        self.is_retry: bool = False
        """True while a sync or trim waits to be tried again."""
        self.loop_above: i64 = 0
        """fio reaps on while the depth is above this; iodepth or more: once."""
        self.rate_wait: i64 = 0
        self.batch: i64 = min(max(1, spec.iodepth_batch), spec.iodepth)
        self.reap_min: i64 = spec.iodepth_batch_complete_min
        self.reap_max: i64 = max(spec.iodepth_batch_complete_max, self.reap_min)
        self.is_polling: bool = self.reap_max == 0
        self.low: i64 = spec.iodepth_low if spec.iodepth_low > 0 else spec.iodepth
        is_ring = spec.ioengine == "io_uring"
        self.submit_call: int = SYS_IO_URING_ENTER if is_ring else SYS_IO_SUBMIT
        self.events_call: int = SYS_IO_URING_ENTER if is_ring else SYS_IO_GETEVENTS
        self.has_ring: bool = is_ring
        self.syncs_in_queue: bool = spec.ioengine != "libaio"
        self.hands_over_at_once: bool = False
        self.helpers: list[SyncHelper] = []

    def helper_done(self, unit: IoUnit) -> None:
        """Put a unit on the ring."""
        self.done.append(unit)
        if self.is_waiting and self.done.count >= self.needed:
            self.is_waiting = False
            self.machine.wake_task(self)

    # -- submitting

    def commit(self, after: i64) -> None:
        """Mark what is queued as issued, and hand it over; go on in `after`."""
        if self.nr_unmarked > 0 and self.depth > 0:
            self.stat.committed(self.nr_unmarked, self.depth)
            self.nr_unmarked = 0
        self.hand_over(after)

    def hand_over(self, after: i64) -> None:
        """Make the submission call if anything is queued; go on in `after`."""
        self.after_submit = after
        self.phase = PHASE_SUBMIT_CALL if self.queued.count > 0 else after

    def begin_submit(self) -> None:
        """Enter the submission call with all queued units."""
        self.nr_commit = self.queued.count
        queued = self.committing
        self.committing = self.queued
        self.queued = queued
        self.machine.trace.sys_enter(self, self.submit_call)
        if self.nr_commit > PLUG_MIN_BATCH:
            start_plug(self, self.own_plug)

    def go_on_submitting(self) -> bool:
        """Submit unit after unit; False when one must wait for a tag."""
        self.phase = PHASE_SUBMIT_GO_ON
        trace = self.machine.trace
        first = self.committing.head
        while first is not None:
            unit = self.committing.pop()
            # In flight from here on: its link belongs to the completion ring.
            self.issued_units.append(unit)
            trace.aio_prep(self)
            trace.io_prep(self)
            if unit.ddir >= SYNC:
                self.hand_sync(unit)
            elif not submit_unit(self, self, unit):
                return False
            first = self.committing.head
        if self.plug is not None:
            finish_plug(self.machine, self)
            if self.is_blocked:
                # A stacked driver's I/O waits for a tag of the device below.
                return False
        machine = self.machine
        machine.trace.sys_exit(self, self.submit_call, int(self.nr_commit))
        if machine.has_preemption and machine.cond_resched(self):
            self.phase = PHASE_SUBMIT_END
            return False
        self.end_submit()
        return True

    def move_to(self, cgroup: Cgroup) -> None:
        """Go there with the kernel workers."""
        super().move_to(cgroup)
        for helper in self.helpers:
            helper.cgroup = cgroup

    def hand_sync(self, unit: IoUnit) -> None:
        """Give a queued sync to a kernel worker."""
        for helper in self.helpers:
            if helper.unit is None:
                helper.serve(unit)
                return
        helper = SyncHelper(self, self.pid + HELPER_PIDS + len(self.helpers))
        self.helpers.append(helper)
        helper.serve(unit)

    def end_submit(self) -> None:
        """Count the I/Os as issued now, after the submission call."""
        now = self.machine.now_ns()
        stat = self.stat
        for unit in self.issued_units:
            stat.add_slat(unit.ddir, now - unit.started_ns)
            unit.issued_ns = now
        self.issued_units.clear()
        stat.submitted(self.nr_commit)
        self.phase = self.after_submit

    # -- reaping

    def look_whether_to_reap(self) -> None:
        """Reap when every unit is in use, when a sync or trim is held up, and always when polling."""
        is_full = self.depth >= self.spec.iodepth or (self.is_retry and self.depth > 0)
        if not is_full and not self.is_polling:
            self.after_io()
            return
        wanted = min(self.reap_min, self.depth)
        if (is_full and wanted == 0) or self.reap_min == 0:
            wanted = 1
        self.loop_above = self.low if is_full else self.spec.iodepth
        self.ask_for(wanted, PHASE_NEXT)

    def after_io(self) -> None:
        """Pause if a think time is due, or go on."""
        if self.has_think and self.unit.ddir <= TRIM and self.error == 0 and self.wants_think():
            self.phase = PHASE_THINK_QUIESCE
        else:
            self.phase = PHASE_NEXT

    def ask_for(self, wanted: i64, after: i64) -> None:
        """Fetch at least `wanted` completions next, handing over what is queued first."""
        self.needed = min(wanted, self.depth)
        self.after_reap = after
        self.is_entered = False
        if self.needed > 0:
            self.hand_over(PHASE_EVENTS)
        else:
            self.phase = PHASE_EVENTS

    def reap(self) -> bool:
        """Wait for the completions asked for, and book them; False: the thread sleeps."""
        machine = self.machine
        has_enough = self.done.count >= self.needed
        if not self.is_entered and not (self.has_ring and has_enough):
            self.is_entered = True
            machine.trace.sys_enter(self, self.events_call)
        if not has_enough:
            if machine.has_preemption and machine.cond_resched(self):
                return False
            self.is_waiting = True
            about_to_sleep(machine, self)
            return False
        nr = self.nr_to_reap()
        if self.is_entered:
            machine.trace.sys_exit(self, self.events_call, int(nr))
        self.is_entered = False
        now = machine.now_ns()
        self.stat.reaped(nr)
        self.nr_outstanding -= nr
        self.depth -= nr
        for _ in range(nr):
            unit = self.done.pop()
            if unit.ddir <= TRIM:
                self.book(unit, now)
            else:
                self.book_fsync(now - unit.issued_ns)
            self.free.append(unit)
        if self.after_reap != PHASE_NEXT:
            self.phase = self.after_reap
        elif self.depth > self.loop_above and self.error == 0:
            self.ask_for(max(1, self.reap_min), PHASE_NEXT)
        else:
            self.after_io()
        return True

    def nr_to_reap(self) -> i64:
        """Return how many of the done units this call fetches."""
        limit = self.reap_max if self.reap_max > self.needed else self.needed
        return self.done.count if self.done.count < limit else limit

    def quiesce(self, phase: i64) -> bool:
        """Hand over, then fetch completions one call at a time and come back to phase; False when none is left."""
        if self.nr_unmarked > 0 and self.depth > 0:
            self.commit(phase)
            return True
        if self.nr_outstanding == 0:
            return False
        self.ask_for(1, phase)
        return True
