"""The asynchronous engines libaio and io_uring: what their thread does next; engine_queue.py submits and reaps.

libaio syncs and trims with a system call of its own; io_uring queues a sync like any I/O, and a kernel worker does it.
Differs: io_uring's first try with NOWAIT is not modelled: a submitter without a tag sleeps, as in libaio.
libaio's sync latency is the call's; fio 3.33 counts it from the unit's last issue.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.submit import resume_submission
from blktwin.block.syscalls import SYS_PWRITE
from blktwin.fio.ddir import SYNC, TRIM
from blktwin.fio.engine_queue import (
    PHASE_EVENTS,
    PHASE_REAP,
    PHASE_SUBMIT_CALL,
    PHASE_SUBMIT_END,
    PHASE_SUBMIT_GO_ON,
    PHASE_THINK_QUIESCE,
    QueueThread,
)
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
)
from blktwin.fio.pattern import NEXT_IO, NEXT_SYNC
from blktwin.fio.unit import IoUnit

PHASE_RATE_QUIESCE: Final = 25
PHASE_TRIM: Final = 26


class AsyncThread(QueueThread):
    """libaio and io_uring: up to iodepth units queued or in flight."""

    def unit_done(self, unit: IoUnit) -> None:
        """Put the unit on the completion ring; wake the thread if it waits for no more."""
        if unit.ddir == TRIM:
            unit.is_done = True
            if self.machine.current is not self:
                self.machine.wake_task(self)
            return
        self.helper_done(unit)

    def run(self) -> None:
        """Go on until the thread sleeps."""
        while self.step():
            pass

    def step(self) -> bool:
        """Do the work of one phase; False: the thread sleeps or has ended."""
        phase = self.phase
        if phase == PHASE_NEXT:
            return self.begin_next()
        if phase == PHASE_SUBMIT_CALL:
            if self.machine.has_preemption and self.machine.cond_resched(self):
                return False
            self.begin_submit()
            return self.go_on_submitting()
        if phase == PHASE_REAP:
            self.look_whether_to_reap()
            return True
        if phase == PHASE_EVENTS:
            return self.reap()
        if phase == PHASE_SUBMIT_GO_ON:
            if self.is_blocked and not resume_submission(self):
                return False
            return self.go_on_submitting()
        if phase == PHASE_SUBMIT_END:
            self.end_submit()
            return True
        if phase == PHASE_RATE:
            if self.is_asleep():
                return False
            self.end_rate_sleep()
            return True
        return self.rare_step(phase)

    def rare_step(self, phase: i64) -> bool:
        """Do the work of a phase that few I/Os meet."""
        if phase == PHASE_START:
            self.begin()
            return True
        if phase == PHASE_DRAIN:
            return self.drain() or self.end_pass()
        if phase == PHASE_THINK_QUIESCE or phase == PHASE_RATE_QUIESCE:
            if self.quiesce(phase):
                return True
            if phase == PHASE_THINK_QUIESCE:
                self.think(self.unit.ddir)
            else:
                self.sleep_until(self.machine.now_ns() + self.rate_wait, PHASE_RATE)
            return False
        if phase == PHASE_THINK:
            if self.is_asleep():
                return False
            self.phase = PHASE_NEXT
            return True
        if phase == PHASE_TRIM:
            return self.end_trim()
        if phase == PHASE_DONE:
            return False
        return self.run_fsync(phase)

    # -- choosing and queueing

    def begin_next(self) -> bool:
        """Choose the next I/O and queue it; False: the thread sleeps."""
        now = self.machine.now_ns()
        if self.is_retry:
            self.try_again(now)
            return True
        if self.should_stop(now):
            self.phase = PHASE_DRAIN
            return True
        self.unit = self.free.pop()
        self.depth += 1
        what = self.pattern.choose()
        if what == NEXT_IO:
            if self.has_rate:
                self.rate_wait = self.rate_wait_ns(now)
                if self.rate_wait > 0:
                    self.phase = PHASE_RATE_QUIESCE
                    return True
            what = self.pattern.take(self.unit)
        self.begin_chosen(what)
        return True

    def end_rate_sleep(self) -> None:
        """Queue the I/O that was waited for, unless the job's time is over."""
        if self.is_terminated or self.machine.now_ns() >= self.stop_ns:
            self.give_back()
        else:
            self.begin_chosen(self.pattern.take(self.unit))

    def give_back(self) -> None:
        """End the pass: nothing was chosen."""
        self.free.append(self.unit)
        self.depth -= 1
        self.phase = PHASE_DRAIN

    def begin_chosen(self, what: i64) -> None:
        """Queue what the pattern gave."""
        unit = self.unit
        if what == NEXT_IO:
            self.count_issue(unit)
            self.queue_unit(unit)
        elif what == NEXT_SYNC:
            unit.file = self.pattern.file
            unit.ddir = self.pattern.sync_ddir
            unit.nbytes = 0
            self.queue_unit(unit)
        else:
            self.give_back()

    def queue_unit(self, unit: IoUnit) -> None:
        """Put the chosen unit into the engine's queue, or do it at once if it is a sync or trim of its own call."""
        machine = self.machine
        machine.trace.user_io(self)
        unit.started_ns = machine.now_ns()
        unit.issued_ns = unit.started_ns
        unit.is_done = False
        if unit.ddir >= TRIM and (unit.ddir == TRIM or not self.syncs_in_queue):
            self.do_alone(unit)
            return
        self.queued.append(unit)
        self.stat.queued(unit.ddir)
        self.pass_bytes += unit.nbytes
        self.nr_outstanding += 1
        self.nr_unmarked += 1
        if self.nr_unmarked >= self.batch:
            self.commit(PHASE_REAP)
        elif self.hands_over_at_once:
            self.hand_over(PHASE_REAP)
        else:
            self.phase = PHASE_REAP

    def is_busy(self) -> bool:
        """Say whether a sync or trim must wait."""
        return self.queued.count > 0

    def do_alone(self, unit: IoUnit) -> None:
        """Begin a sync or trim; if the engine is busy, hand over and reap first, as fio does."""
        if self.is_busy():
            self.depth -= 1
            self.is_retry = True
            self.commit(PHASE_REAP)
            return
        self.is_retry = False
        if unit.ddir >= SYNC:
            self.begin_fsync(unit.file, PHASE_FSYNC)
            return
        self.phase = PHASE_TRIM
        self.machine.trace.sys_enter(self, SYS_PWRITE)
        submit_unit(self, self, unit)

    def try_again(self, now: i64) -> None:
        """Do a sync or trim that was held up, unless the job's time is over."""
        self.is_retry = False
        if not self.is_terminated and now < self.stop_ns:
            self.depth += 1
            self.queue_unit(self.unit)
            return
        if self.unit.ddir == TRIM:
            self.nr_issued -= 1
        self.free.append(self.unit)
        self.phase = PHASE_DRAIN

    def end_trim(self) -> bool:
        """Go on with a trim; False: the thread sleeps."""
        unit = self.unit
        if self.is_blocked and not resume_submission(self):
            return False
        if not unit.is_done:
            return False
        self.machine.trace.sys_exit(self, SYS_PWRITE, 1)
        stat = self.stat
        stat.submitted(1)
        stat.reaped(1)
        stat.issued(TRIM, self.depth)
        self.book(unit, self.machine.now_ns())
        self.put_alone()
        return True

    def put_alone(self) -> None:
        """Take back the unit of a sync or trim."""
        self.free.append(self.unit)
        self.depth -= 1
        self.phase = PHASE_REAP

    def run_fsync(self, phase: i64) -> bool:
        """Go on with an fsync of the thread's own; False: it sleeps."""
        if not self.fsync_ended():
            return False
        if phase == PHASE_END_FSYNC:
            if self.syncs_in_queue:
                self.stat.committed(1, 1)
            return self.end_pass()
        self.stat.issued(self.pattern.sync_ddir, self.depth)
        self.book_fsync(self.machine.now_ns() - self.fsync_started_ns)
        self.put_alone()
        return True

    def drain(self) -> bool:
        """Fetch all that is in flight and come back; False when nothing is."""
        if self.depth == 0:
            return False
        self.ask_for(self.depth, PHASE_DRAIN)
        return True

    def end_pass(self) -> bool:
        """Sync if end_fsync asks for it, then begin another pass or end the thread; False: it has ended."""
        if self.begin_end_fsync():
            return True
        if self.next_pass():
            self.phase = PHASE_NEXT
            return True
        self.finish()
        return False
