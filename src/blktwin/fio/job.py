"""A fio thread as a task of the machine: life, stopping rules, think time, fsync. engines.py submits its I/Os.

run() goes on from `phase` until the thread must sleep. A wake-up may be spurious: every phase checks what it waits for.
Differs: fio's main loop looks for jobs to start and jobs that ended every 100 ms; here they start and end in time.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from blktwin.block.bdev import FsyncCall
from blktwin.block.bio import BLK_STS_OK, REQ_OP_DISCARD, REQ_OP_READ, REQ_OP_WRITE, STATUS_ERRNO
from blktwin.block.cgroup import Cgroup
from blktwin.block.ioprio import effective
from blktwin.block.machine import Machine, Task, Timer
from blktwin.block.plug import Plug
from blktwin.block.syscalls import SYS_FSYNC
from blktwin.fio.ddir import READ, TRIM, WRITE
from blktwin.fio.pattern import IoPattern
from blktwin.fio.rate import RateControl
from blktwin.fio.spec import JobSpec
from blktwin.fio.stats import ThreadStat
from blktwin.fio.unit import FioFile, IoUnit

PHASE_START: Final = 0
PHASE_NEXT: Final = 1
PHASE_RATE: Final = 2
PHASE_SUBMIT: Final = 3
PHASE_WAIT: Final = 4
PHASE_FSYNC: Final = 5
PHASE_THINK: Final = 6
PHASE_DRAIN: Final = 7
PHASE_END_FSYNC: Final = 8
PHASE_DONE: Final = 9
PHASE_ENGINE: Final = 20
"""Engines number their own phases from here."""

LIMIT_MAX: Final = 2_000_000_000_000_000_000
"""No limit on bytes or I/Os is above this, so that two of them add up within 63 bits."""
NEVER: Final = 4_000_000_000_000_000_000
EIO: Final = 5
DDIR_NAMES: Final = ("read", "write", "trim", "sync", "datasync")


@mypyc_attr(allow_interpreted_subclasses=True)
class ThreadWatcher:
    """Who wants to know that a thread has ended."""

    def thread_finished(self, thread: IoThread) -> None:
        """See thread end, at the machine's local time."""
        raise NotImplementedError


class WakeTimer(Timer):
    """Wakes its thread."""

    def __init__(self, thread: IoThread) -> None:
        super().__init__()
        self.thread: IoThread = thread

    def fire(self) -> None:
        """Wake it."""
        self.thread.machine.wake_task(self.thread)


class IoThread(Task):
    """Base of the engines' threads; `number` counts from 1 over the whole run.

    Limits: total_limit (bytes of all loops) for issue_bytes, pass_limit (bytes of one pass) for pass_bytes, which only
    the asynchronous engines count, as in fio; ios_limit (number_ios of all loops, 0: none) for nr_blocks (reads,
    writes and trims completed since the ramp time) with nr_outstanding (given to an asynchronous engine, not reaped).
    pass_completed is nr_completed when the pass began. *_base: CPU time and switches of the ramp time.
    """

    def __init__(
        self,
        machine: Machine,
        spec: JobSpec,
        pattern: IoPattern,
        cgroup: Cgroup,
        watcher: ThreadWatcher,
        number: int,
        pid: int,
    ) -> None:
        super().__init__(pid, "fio", cgroup)
        self.machine: Machine = machine
        self.spec: JobSpec = spec
        self.pattern: IoPattern = pattern
        self.watcher: ThreadWatcher = watcher
        self.number: int = number
        self.stat: ThreadStat = ThreadStat(spec)
        self.ioprio = effective(spec.io_priority(), spec.nice)
        self.nice = spec.nice
        self.phase: i64 = PHASE_START
        self.timer: WakeTimer = WakeTimer(self)
        self.sleep_until_ns: i64 = 0
        self.own_plug: Plug = Plug()
        self.fsync_call: FsyncCall | None = None
        self.end_fsync_file: i64 = 0
        """Index of the file that end_fsync syncs next."""
        self.fsync_started_ns: i64 = 0
        self.is_terminated: bool = False
        self.is_started: bool = False
        self.ramp_end_ns: i64 = 0
        self.stop_ns: i64 = NEVER
        self.usr_base_ns: i64 = 0
        self.sys_base_ns: i64 = 0
        self.switch_base: i64 = 0
        self.total_limit: i64 = 0
        self.pass_limit: i64 = 0
        self.ios_limit: i64 = 0
        self.loops_left: i64 = spec.loops - 1
        self.issue_bytes: i64 = 0
        self.pass_bytes: i64 = 0
        self.pass_completed: i64 = 0
        self.nr_outstanding: i64 = 0
        self.nr_blocks: i64 = 0
        self.nr_issued: i64 = 0
        self.nr_completed: i64 = 0
        self.nr_failed: i64 = 0
        self.rate: RateControl = RateControl(spec, pattern.seeds)
        self.has_rate: bool = self.rate.is_limited
        self.has_minimum: bool = self.rate.has_minimum
        self.is_timed: bool = spec.time_based
        self.is_sync_write: bool = spec.sync != "none"
        """Opened with O_SYNC or O_DSYNC."""
        self.has_think: bool = spec.thinktime_ns > 0
        self.last_think_ns: i64 = 0
        self.last_think_blocks: i64 = 0
        self.think_by_issue: bool = spec.thinktime_blocks_type == "issue"
        self.error: i64 = 0
        self.set_limits()

    def set_limits(self) -> None:
        """Work out how much a pass and the whole job may issue."""
        spec = self.spec
        pattern = self.pattern
        region: i64 = 0
        for file in pattern.files:
            region += file.io_bytes
        self.region_bytes: i64 = region
        self.io_size_bytes: i64 = min(spec.io_size_bytes, LIMIT_MAX)
        if spec.io_size_percent > 0:
            self.io_size_bytes = min(int(region) * spec.io_size_percent // 100, LIMIT_MAX)
        self.byte_limit: i64 = self.io_size_bytes if self.io_size_bytes > 0 else region
        self.total_limit = min(int(self.byte_limit) * spec.loops, LIMIT_MAX)
        self.pass_limit = region
        if pattern.has_writes and pattern.is_random and spec.norandommap and self.io_size_bytes > region:
            self.pass_limit = self.io_size_bytes
        factor = 2 * spec.loops if pattern.is_trimwrite else spec.loops
        self.ios_limit = min(spec.number_ios * factor, LIMIT_MAX)
        if pattern.is_trimwrite:
            self.pass_limit += self.total_limit

    # -- life

    def begin(self) -> None:
        """Start the clocks: the thread's first run."""
        now = self.machine.now_ns()
        spec = self.spec
        self.is_started = True
        self.stat.start(now)
        if spec.ramp_time_ns > 0:
            self.ramp_end_ns = now + spec.ramp_time_ns
        elif spec.runtime_ns > 0:
            self.stop_ns = now + spec.runtime_ns
        self.last_think_ns = now
        for file in self.pattern.files:
            if file.handle is not None:
                file.handle.open()
        self.phase = PHASE_NEXT

    def end_ramp(self, now: i64) -> None:
        """Forget what came before: the ramp is over, and the runtime begins."""
        self.ramp_end_ns = 0
        self.stat.reset(now)
        self.usr_base_ns = self.utime_ns
        self.sys_base_ns = self.stime_ns
        self.switch_base = self.nr_switches
        self.pattern.end_ramp()
        self.rate.reset()
        self.nr_blocks = 0
        if self.spec.runtime_ns > 0:
            self.stop_ns = now + self.spec.runtime_ns

    def should_stop(self, now: i64) -> bool:
        """Say whether this pass may begin no further I/O."""
        if now >= self.stop_ns:
            self.is_terminated = True
        if self.is_terminated:
            return True
        if self.is_timed:
            return False
        if self.issue_bytes >= self.total_limit or self.pass_bytes >= self.pass_limit:
            return True
        return self.ios_limit > 0 and self.nr_blocks + self.nr_outstanding >= self.ios_limit

    def next_pass(self) -> bool:
        """Begin another pass over the files if the job wants one; False: it is done."""
        if self.is_terminated or self.error != 0 or self.nr_completed == self.pass_completed:
            return False
        if not self.is_timed:
            if self.loops_left > 0:
                self.loops_left -= 1
            elif not self.is_short():
                return False
        if self.pattern.is_trimwrite:
            # fio 3.33 doubles number_ios once a pass.
            self.ios_limit *= 2
        self.pass_bytes = 0
        self.pass_completed = self.nr_completed
        self.pattern.restart()
        return True

    def is_short(self) -> bool:
        """Say whether the last loop leaves enough to do for another pass."""
        if self.ios_limit > 0 and self.nr_blocks + self.nr_outstanding >= self.ios_limit:
            return False
        left = self.byte_limit
        for direction in self.stat.directions:
            left -= direction.io_bytes
        if left < max(self.spec.bs_max):
            return False
        return self.io_size_bytes > 0 or not self.pattern.all_done()

    def terminate(self) -> None:
        """Stop after the I/Os in flight."""
        self.is_terminated = True
        if self.phase == PHASE_RATE or self.phase == PHASE_THINK:
            self.sleep_until_ns = 0
            self.machine.wake_task(self)

    def move_to(self, cgroup: Cgroup) -> None:
        """Go to another cgroup, with the threads that help: what is submitted from now on is that one's."""
        self.cgroup = cgroup

    def finish(self) -> None:
        """End the thread."""
        self.phase = PHASE_DONE
        stat = self.stat
        stat.finish(self.machine.now_ns())
        stat.usr_ns += self.utime_ns - self.usr_base_ns
        stat.sys_ns += self.stime_ns - self.sys_base_ns
        stat.context_switches += self.nr_switches - self.switch_base
        stat.error = int(self.error)
        self.io_context.exit_task()
        self.watcher.thread_finished(self)

    def fail(self, errno: i64, text: str) -> None:
        """Note the error that ends the job."""
        if self.error == 0:
            self.error = errno
            self.stat.error_text = text
        self.is_terminated = True

    def unit_done(self, unit: IoUnit) -> None:
        """See a unit's bio end, in an interrupt or inline."""
        raise NotImplementedError

    def helper_done(self, unit: IoUnit) -> None:
        """See a unit end that a helper task has served."""
        raise NotImplementedError

    def fail_sync(self, status: i64) -> None:
        """End the job over a sync that failed."""
        self.fail(STATUS_ERRNO.get(int(status), EIO), "fsync failed")

    # -- sleeping

    def sleep_until(self, until_ns: i64, phase: i64) -> None:
        """Sleep in phase; the caller returns from run()."""
        self.phase = phase
        self.sleep_until_ns = until_ns
        self.machine.arm_timer(self.timer, until_ns)

    def is_asleep(self) -> bool:
        """Say whether the timed sleep goes on."""
        return self.machine.now_ns() < self.sleep_until_ns and not self.is_terminated

    # -- rate

    def rate_wait_ns(self, now: i64) -> i64:
        """Return how long to wait before the chosen I/O (0: not at all); may turn its direction."""
        pattern = self.pattern
        rate = self.rate
        now_us = (now - self.stat.epoch_ns) // 1000
        # fio asks before it chooses between a trim and its write.
        ddir = rate.choose(WRITE if pattern.is_trimwrite else pattern.ddir, now_us, pattern.is_mixed)
        if not pattern.is_trimwrite:
            pattern.turn_to(ddir)
        due_us = rate.next_us[ddir]
        if due_us <= now_us:
            return 0
        wait_ns = (due_us - now_us) * 1000
        return wait_ns if now + wait_ns <= self.stop_ns else max(self.stop_ns - now, 0)

    # -- one I/O

    def book(self, unit: IoUnit, now: i64) -> None:
        """Count a completed read, write or trim."""
        unit.is_done = False
        self.nr_completed += 1
        if unit.status != BLK_STS_OK:
            self.fail_unit(unit)
            return
        self.nr_blocks += 1
        self.pattern.last_was_sync = False
        if self.ramp_end_ns > 0 and now >= self.ramp_end_ns:
            self.end_ramp(now)
            return
        self.stat.completed(unit.ddir, unit.nbytes, now - unit.issued_ns, now - unit.started_ns, now)
        if self.has_minimum and self.ramp_end_ns == 0:
            text = self.rate.missed_minimum(self.stat, now)
            if text:
                self.fail(EIO, text)

    def fail_unit(self, unit: IoUnit) -> None:
        """End the job over an I/O that failed."""
        self.nr_failed += 1
        errno = STATUS_ERRNO.get(int(unit.status), EIO)
        self.fail(
            errno, f"I/O error on {unit.file.name}: {DDIR_NAMES[unit.ddir]} at {unit.offset}, {unit.nbytes} bytes"
        )

    def count_issue(self, unit: IoUnit) -> None:
        """Count a unit that is about to be issued."""
        self.nr_issued += 1
        # fio compares a trimwrite job's size with its writes alone.
        if unit.ddir != TRIM or not self.pattern.is_trimwrite:
            self.issue_bytes += unit.nbytes
        if self.has_rate:
            self.rate.note(unit.ddir, unit.nbytes)

    def wants_think(self) -> bool:
        """Say whether a pause is due after this I/O: by blocks, or by time since the last pause began."""
        spec = self.spec
        is_due = False
        if spec.thinktime_iotime_ns > 0:
            is_due = self.machine.now_ns() - self.last_think_ns >= spec.thinktime_iotime_ns + spec.thinktime_ns
            if not is_due and spec.thinktime_blocks == 1:
                return False
        blocks = self.nr_blocks
        if self.think_by_issue:
            issues = self.pattern.issues
            blocks = issues[READ] + issues[WRITE] + issues[TRIM]
        if not is_due and blocks < self.last_think_blocks + spec.thinktime_blocks:
            return False
        self.last_think_blocks = blocks
        self.last_think_ns = self.machine.now_ns()
        return True

    def think(self, ddir: i64) -> None:
        """Begin the pause after an I/O of ddir: spin first, then sleep."""
        spec = self.spec
        spin = min(spec.thinktime_spin_ns, spec.thinktime_ns)
        until = self.machine.now_ns() + spec.thinktime_ns
        if spec.rate.ignore_thinktime and self.has_rate:
            self.rate.forgive(ddir, spec.thinktime_ns // 1000)
        if spin > 0:
            self.machine.spin(spin)
        self.sleep_until(until, PHASE_THINK)

    # -- fsync

    def begin_fsync(self, file: FioFile, phase: i64) -> None:
        """Enter fsync() of a file; go on in `phase`."""
        machine = self.machine
        machine.trace.user_io(self)
        self.fsync_started_ns = machine.now_ns()
        machine.trace.sys_enter(self, SYS_FSYNC)
        self.phase = phase
        handle = file.handle
        if handle is None:
            self.fsync_call = None
        elif self.fsync_call is None or self.fsync_call.file is not handle:
            self.fsync_call = FsyncCall(handle, self)

    def begin_end_fsync(self) -> bool:
        """Enter the next fsync() of end_fsync, file by file; False when none is left to do."""
        pattern = self.pattern
        if not self.spec.end_fsync or self.error != 0:
            return False
        if pattern.last_was_sync or not pattern.has_writes:
            return False
        if self.end_fsync_file >= len(pattern.files):
            self.end_fsync_file = 0
            pattern.last_was_sync = True
            return False
        file = pattern.files[self.end_fsync_file]
        self.end_fsync_file += 1
        self.begin_fsync(file, PHASE_END_FSYNC)
        return True

    def fsync_ended(self) -> bool:
        """Go on with fsync(); True when it has returned."""
        call = self.fsync_call
        if call is not None and not call.advance():
            return False
        self.machine.trace.sys_exit(self, SYS_FSYNC, 1)
        if call is not None and call.status != BLK_STS_OK:
            self.fail_sync(call.status)
        return True

    def book_fsync(self, lat_ns: i64) -> None:
        """Count a completed fsync or fdatasync."""
        self.pattern.last_was_sync = True
        now = self.machine.now_ns()
        if self.ramp_end_ns > 0 and now >= self.ramp_end_ns:
            self.end_ramp(now)
            return
        self.stat.synced(lat_ns)


def op_of(ddir: i64) -> i64:
    """Return the block operation of a direction."""
    if ddir == WRITE:
        return REQ_OP_WRITE
    if ddir == TRIM:
        return REQ_OP_DISCARD
    return REQ_OP_READ
