"""The asynchronous engines: libaio, io_uring and posixaio, with fio's rules of when to submit and when to reap.

A batch is submitted when iodepth_batch units are queued; fio reaps when no free unit is left, and at the end.
Differs: io_uring's first try with NOWAIT is not modelled: a submitter without a tag sleeps, as in libaio.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.machine import Task
from blktwin.block.submit import about_to_sleep, finish_plug, resume_submission, start_plug
from blktwin.block.syscalls import SYS_IO_GETEVENTS, SYS_IO_SUBMIT, SYS_IO_URING_ENTER
from blktwin.fio.ddir import SYNC
from blktwin.fio.engines import submit_unit
from blktwin.fio.job import (
    PHASE_DONE,
    PHASE_DRAIN,
    PHASE_END_FSYNC,
    PHASE_FSYNC,
    PHASE_NEXT,
    PHASE_RATE,
    PHASE_START,
    PHASE_THINK,
    IoThread,
)
from blktwin.fio.pattern import NEXT_END, NEXT_SYNC
from blktwin.fio.unit import IoUnit

PHASE_COMMIT: Final = 20
PHASE_COMMIT_GO_ON: Final = 21
PHASE_REAP: Final = 22
PHASE_EVENTS: Final = 23
PHASE_QUIESCED: Final = 24
PHASE_RATE_SLEEP: Final = 25
PLUG_MIN_BATCH: Final = 2
"""A submission call of more than this many I/Os brings a plug."""


class UnitFifo:
    """Units in order."""

    def __init__(self) -> None:
        self.head: IoUnit | None = None
        self.tail: IoUnit | None = None
        self.count: i64 = 0

    def append(self, unit: IoUnit) -> None:
        """Put unit last."""
        unit.following = None
        tail = self.tail
        if tail is None:
            self.head = unit
        else:
            tail.following = unit
        self.tail = unit
        self.count += 1

    def pop(self) -> IoUnit:
        """Take the first; there must be one."""
        unit = self.head
        assert unit is not None, "the list is empty"
        self.head = unit.following
        if self.head is None:
            self.tail = None
        unit.following = None
        self.count -= 1
        return unit


class AsyncThread(IoThread):
    """libaio and io_uring: up to iodepth units queued or in flight."""

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
        """Units queued, in flight, or done and not yet reaped."""
        self.needed: i64 = 0
        self.is_waiting: bool = False
        self.after_commit: i64 = PHASE_REAP
        self.after_reap: i64 = PHASE_NEXT
        self.nr_commit: i64 = 0
        self.issued_units: list[IoUnit] = []
        """Submitted by the call that runs."""
        self.is_entered: bool = False
        self.batch: i64 = min(max(1, spec.iodepth_batch), spec.iodepth)
        self.reap_min: i64 = spec.iodepth_batch_complete_min
        self.reap_max: i64 = max(spec.iodepth_batch_complete_max, spec.iodepth_batch_complete_min, 1)
        self.low: i64 = spec.iodepth_low if spec.iodepth_low > 0 else spec.iodepth
        is_ring = spec.ioengine == "io_uring"
        self.submit_call: int = SYS_IO_URING_ENTER if is_ring else SYS_IO_SUBMIT
        self.events_call: int = SYS_IO_URING_ENTER if is_ring else SYS_IO_GETEVENTS
        self.has_ring: bool = is_ring

    def unit_done(self, unit: IoUnit) -> None:
        """Put the unit on the completion ring; wake the thread if it waits for no more."""
        self.done.append(unit)
        if self.is_waiting and self.done.count >= self.needed:
            self.is_waiting = False
            self.machine.wake_task(self)

    def run(self) -> None:
        """Go on until the thread sleeps."""
        while self.step():
            pass

    def step(self) -> bool:
        """Do the work of one phase; False: the thread sleeps or has ended."""
        phase = self.phase
        if phase == PHASE_NEXT:
            return self.begin_next()
        if phase == PHASE_COMMIT:
            self.begin_commit()
            return self.go_on_committing()
        if phase == PHASE_REAP:
            self.look_whether_to_reap()
            return True
        if phase == PHASE_EVENTS:
            return self.reap()
        if phase == PHASE_COMMIT_GO_ON:
            if self.is_blocked and not resume_submission(self):
                return False
            return self.go_on_committing()
        if phase == PHASE_RATE:
            if self.is_asleep():
                return False
            self.enqueue()
            return True
        return self.rare_step(phase)

    def rare_step(self, phase: i64) -> bool:
        """Do the work of a phase that few I/Os meet."""
        if phase == PHASE_START:
            self.begin()
            return True
        if phase == PHASE_DRAIN:
            return self.drain(PHASE_DRAIN) or self.end()
        if phase == PHASE_QUIESCED:
            if self.drain(PHASE_QUIESCED):
                return True
            self.think()
            return False
        if phase == PHASE_THINK:
            if self.is_asleep():
                return False
            self.phase = PHASE_NEXT
            return True
        if phase == PHASE_RATE_SLEEP:
            self.sleep_until(self.sleep_until_ns, PHASE_RATE)
            return False
        if phase == PHASE_DONE:
            return False
        return self.run_fsync(phase)

    def run_fsync(self, phase: i64) -> bool:
        """Go on with an fsync, which these engines do synchronously."""
        if not self.fsync_ended():
            return False
        if phase == PHASE_END_FSYNC:
            self.finish()
            return False
        self.book_fsync()
        self.stat.issued(SYNC, self.depth + 1)
        self.phase = PHASE_NEXT
        return True

    # -- choosing and queueing

    def begin_next(self) -> bool:
        """Choose the next I/O and queue it; False: the thread sleeps."""
        now = self.machine.now_ns()
        if self.ramp_end_ns > 0 and now >= self.ramp_end_ns:
            self.end_ramp(now)
        if self.should_stop(now):
            self.phase = PHASE_DRAIN
            return True
        unit = self.free.pop()
        self.unit = unit
        what = self.pattern.next(unit)
        if what != NEXT_SYNC and what != NEXT_END:
            self.count_issue(unit)
            if self.has_rate:
                due = self.due_ns(unit.ddir, unit.nbytes)
                if due > now:
                    return self.wait_for_rate(due)
            self.enqueue()
            return True
        self.free.append(unit)
        if what == NEXT_SYNC:
            if self.queued.count > 0:
                # fio hands over what it has queued before it syncs; the sync is due again after that.
                self.pattern.last_was_sync = False
                self.after_commit = PHASE_NEXT
                self.phase = PHASE_COMMIT
            else:
                self.begin_fsync(PHASE_FSYNC)
        else:
            self.phase = PHASE_DRAIN
        return True

    def wait_for_rate(self, due: i64) -> bool:
        """Hand over what is queued, then sleep until the next I/O is due."""
        if self.queued.count == 0:
            self.sleep_until(due, PHASE_RATE)
            return False
        self.sleep_until_ns = due
        self.after_commit = PHASE_RATE_SLEEP
        self.phase = PHASE_COMMIT
        return True

    def enqueue(self) -> None:
        """Put the chosen unit into fio's queue, and submit when a batch is full."""
        unit = self.unit
        machine = self.machine
        machine.trace.user_io(self)
        unit.started_ns = machine.now_ns()
        unit.issued_ns = unit.started_ns
        unit.is_done = False
        self.queued.append(unit)
        self.depth += 1
        self.stat.queued(unit.ddir)
        if self.queued.count >= self.batch:
            self.after_commit = PHASE_REAP
            self.phase = PHASE_COMMIT
        else:
            self.phase = PHASE_REAP

    # -- submitting

    def begin_commit(self) -> None:
        """Enter the submission call with all queued units."""
        self.nr_commit = self.queued.count
        queued = self.committing
        self.committing = self.queued
        self.queued = queued
        self.machine.trace.sys_enter(self, self.submit_call)
        if self.nr_commit > PLUG_MIN_BATCH:
            start_plug(self, self.own_plug)

    def go_on_committing(self) -> bool:
        """Submit unit after unit; False when one must wait for a tag."""
        self.phase = PHASE_COMMIT_GO_ON
        trace = self.machine.trace
        first = self.committing.head
        while first is not None:
            unit = self.committing.pop()
            # In flight from here on: its link belongs to the completion ring.
            self.issued_units.append(unit)
            trace.io_prep(self)
            if not submit_unit(self, self, unit):
                return False
            first = self.committing.head
        self.end_commit()
        self.phase = self.after_commit
        return True

    def end_commit(self) -> None:
        """Leave the submission call; the I/Os count as issued now."""
        machine = self.machine
        if self.plug is not None:
            finish_plug(machine, self)
        machine.trace.sys_exit(self, self.submit_call, int(self.nr_commit))
        now = machine.now_ns()
        stat = self.stat
        for unit in self.issued_units:
            stat.add_slat(unit.ddir, now - unit.started_ns)
            unit.issued_ns = now
        self.issued_units.clear()
        stat.submitted(self.nr_commit)
        stat.committed(self.nr_commit, self.depth)

    # -- reaping

    def look_whether_to_reap(self) -> None:
        """Reap when every unit is in use, or when fio polls (iodepth_batch_complete_min=0)."""
        is_full = self.free.count == 0
        if self.has_think and self.wants_think():
            self.phase = PHASE_QUIESCED
            return
        if not is_full and self.reap_min > 0:
            self.phase = PHASE_NEXT
            return
        wanted = min(self.reap_min, self.depth)
        if is_full and wanted == 0:
            wanted = 1
        self.ask_for(wanted, PHASE_NEXT)

    def ask_for(self, wanted: i64, after: i64) -> None:
        """Fetch at least `wanted` completions next, submitting what is queued first."""
        self.needed = wanted
        self.after_reap = after
        if self.queued.count > 0 and wanted > 0:
            self.after_commit = PHASE_EVENTS
            self.phase = PHASE_COMMIT
        else:
            self.phase = PHASE_EVENTS
        self.is_entered = False

    def reap(self) -> bool:
        """Wait for the completions asked for, and book them; False: the thread sleeps."""
        machine = self.machine
        has_enough = self.done.count >= self.needed
        if not self.is_entered and not (self.has_ring and has_enough):
            self.is_entered = True
            machine.trace.sys_enter(self, self.events_call)
        if not has_enough:
            self.is_waiting = True
            about_to_sleep(machine, self)
            return False
        limit = self.reap_max if self.reap_max > self.needed else self.needed
        nr = self.done.count if self.done.count < limit else limit
        if self.is_entered:
            machine.trace.sys_exit(self, self.events_call, int(nr))
        self.is_entered = False
        now = machine.now_ns()
        if nr > 0 or self.needed == 0:
            self.stat.reaped(nr)
        for _ in range(nr):
            unit = self.done.pop()
            self.book(unit, now)
            self.depth -= 1
            self.free.append(unit)
        if self.after_reap == PHASE_NEXT and self.low < self.spec.iodepth and self.depth > self.low:
            self.ask_for(max(1, min(self.reap_min, self.depth)), PHASE_NEXT)
        else:
            self.phase = self.after_reap
        return True

    def drain(self, phase: i64) -> bool:
        """Fetch all that is in flight and come back to phase; False when nothing is."""
        if self.depth == 0:
            return False
        self.ask_for(self.depth, phase)
        return True

    def end(self) -> bool:
        """Begin another pass, or end the thread; False: it has ended."""
        if self.next_pass():
            self.phase = PHASE_NEXT
            return True
        if self.spec.end_fsync and self.error == 0:
            self.begin_fsync(PHASE_END_FSYNC)
            return True
        self.finish()
        return False


class AioHelper(Task):
    """glibc's aio thread of one file: it serves the file's requests one after the other, with pread and pwrite."""

    def __init__(self, owner: PosixAioThread, pid: int) -> None:
        super().__init__(pid, "fio", owner.cgroup)
        self.owner: PosixAioThread = owner
        self.ioprio = owner.ioprio
        self.waiting: UnitFifo = UnitFifo()
        self.serving: IoUnit | None = None
        self.is_served: bool = False

    def run(self) -> None:
        """Serve until nothing waits."""
        owner = self.owner
        trace = owner.machine.trace
        while True:
            unit = self.serving
            if unit is not None:
                if self.is_blocked and not resume_submission(self):
                    return
                if not self.is_served:
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
            submit_unit(owner, self, unit)


class PosixAioThread(AsyncThread):
    """posixaio: every unit goes to glibc's helper thread, so one file never sees more than one I/O at a time."""

    def prepare(self) -> None:
        """Make the units and the helper."""
        super().prepare()
        self.batch = 1
        self.helper: AioHelper = AioHelper(self, self.pid + 100_000)
        self.helper.cpu = self.cpu

    def go_on_committing(self) -> bool:
        """Hand the units to the helper."""
        while self.committing.count > 0:
            unit = self.committing.pop()
            self.issued_units.append(unit)
            self.helper.waiting.append(unit)
        if self.helper.serving is None:
            self.machine.wake_task(self.helper)
        self.end_commit()
        self.phase = self.after_commit
        return True

    def unit_done(self, unit: IoUnit) -> None:
        """Wake the helper, which waits for this I/O."""
        self.helper.is_served = True
        if self.machine.current is not self.helper:
            self.machine.wake_task(self.helper)

    def helper_done(self, unit: IoUnit) -> None:
        """Put a served unit on the ring."""
        self.done.append(unit)
        if self.is_waiting and self.done.count >= self.needed:
            self.is_waiting = False
            self.machine.wake_task(self)
