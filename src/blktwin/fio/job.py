"""A fio thread as a task of the machine: life, stopping rules, rate, think time, fsync. engines.py submits its I/Os.

run() goes on from `phase` until the thread must sleep. A wake-up may be spurious: every phase checks what it waits for.
"""

from __future__ import annotations

import math
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from blktwin.block.bdev import FsyncCall
from blktwin.block.bio import BLK_STS_OK, REQ_OP_DISCARD, REQ_OP_READ, REQ_OP_WRITE, STATUS_ERRNO
from blktwin.block.cgroup import Cgroup
from blktwin.block.ioprio import effective, pack
from blktwin.block.machine import Machine, Task, Timer
from blktwin.block.plug import Plug
from blktwin.block.syscalls import SYS_FSYNC
from blktwin.fio.ddir import TRIM, WRITE
from blktwin.fio.pattern import IoPattern
from blktwin.fio.random_state import RAND_POISSON, FioRandom
from blktwin.fio.spec import JobSpec
from blktwin.fio.stats import ThreadStat
from blktwin.fio.unit import IoUnit

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

NEVER: Final = 4_000_000_000_000_000_000
ETIMEDOUT: Final = 110


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
    """Base of the engines' threads; `number` counts from 1 over the whole run."""

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
        self.ioprio = effective(pack(spec.prioclass, spec.prio) if spec.prioclass else 0, spec.nice)
        self.phase: i64 = PHASE_START
        self.timer: WakeTimer = WakeTimer(self)
        self.sleep_until_ns: i64 = 0
        self.own_plug: Plug = Plug()
        self.fsync_call: FsyncCall | None = None
        self.fsync_file: i64 = 0
        self.fsync_started_ns: i64 = 0
        self.is_terminated: bool = False
        self.is_started: bool = False
        self.epoch_ns: i64 = 0
        self.ramp_end_ns: i64 = 0
        self.stop_ns: i64 = NEVER
        self.byte_limit: i64 = 0
        self.pass_limit: i64 = 0
        self.io_limit: i64 = spec.number_ios if spec.number_ios > 0 else NEVER
        self.loops_left: i64 = spec.loops
        self.this_bytes: i64 = 0
        """Issued in this pass, what fio compares with size."""
        self.nr_issued: i64 = 0
        self.nr_completed: i64 = 0
        self.nr_failed: i64 = 0
        self.has_rate: bool = any(spec.rate.bytes_per_s) or any(spec.rate.iops)
        self.rate_bps: vec[i64] = vec[i64]([0, 0, 0])
        self.rate_bytes: vec[i64] = vec[i64]([0, 0, 0])
        self.rate_start_ns: i64 = 0
        self.rate_check_ns: i64 = NEVER
        self.rate_seen_bytes: vec[i64] = vec[i64]([0, 0, 0])
        self.rate_seen_ios: vec[i64] = vec[i64]([0, 0, 0])
        self.is_poisson: bool = spec.rate.process == "poisson"
        self.poisson: list[FioRandom] = [FioRandom(pattern.seeds[RAND_POISSON + d]) for d in range(3)]
        self.poisson_due_us: vec[i64] = vec[i64]([0, 0, 0])
        self.is_timed: bool = spec.time_based
        self.has_io_size: bool = spec.io_size_bytes > 0 or spec.io_size_percent > 0
        self.is_sync_write: bool = spec.sync != "none"
        """Opened with O_SYNC or O_DSYNC."""
        self.has_think: bool = spec.thinktime_ns > 0
        self.last_think_ns: i64 = 0
        self.think_by_issue: bool = spec.thinktime_blocks_type == "issue"
        self.error: i64 = 0
        self.set_limits()

    def set_limits(self) -> None:
        """Work out how many bytes a pass and the whole job issue, and the rates in bytes per second."""
        spec = self.spec
        region: i64 = 0
        for file in self.pattern.files:
            region += file.io_bytes
        self.pass_limit = region
        self.byte_limit = spec.io_size_bytes if spec.io_size_bytes > 0 else region
        if spec.io_size_percent > 0:
            self.byte_limit = region * spec.io_size_percent // 100
        for ddir in range(3):
            bps: i64 = spec.rate.bytes_per_s[ddir]
            if bps == 0:
                bps = spec.rate.iops[ddir] * spec.bs_min[ddir]
            self.rate_bps[ddir] = bps

    # -- life

    def begin(self) -> None:
        """Start the clocks: the thread's first run."""
        now = self.machine.now_ns()
        spec = self.spec
        self.is_started = True
        self.epoch_ns = now
        self.stat.start(now)
        self.ramp_end_ns = now + spec.ramp_time_ns if spec.ramp_time_ns > 0 else 0
        if spec.runtime_ns > 0:
            self.stop_ns = now + spec.ramp_time_ns + spec.runtime_ns
        self.rate_start_ns = now
        self.last_think_ns = now
        if any(spec.rate.bytes_per_s_min) or any(spec.rate.iops_min):
            self.rate_check_ns = now + spec.rate.cycle_ns
        self.phase = PHASE_NEXT

    def end_ramp(self, now: i64) -> None:
        """Forget what came before: the ramp is over."""
        self.ramp_end_ns = 0
        self.stat.reset(now)
        self.epoch_ns = now
        self.rate_start_ns = now
        for ddir in range(3):
            self.rate_bytes[ddir] = 0
            self.poisson_due_us[ddir] = 0

    def should_stop(self, now: i64) -> bool:
        """Say whether no further I/O may be begun."""
        if now >= self.stop_ns or self.is_terminated or self.nr_issued >= self.io_limit:
            return True
        return not self.is_timed and self.this_bytes >= self.byte_limit

    def next_pass(self) -> bool:
        """Begin another pass over the files if the job wants one; False: it is done."""
        if self.is_terminated or self.error != 0 or self.nr_issued >= self.io_limit:
            return False
        if self.machine.now_ns() >= self.stop_ns:
            return False
        is_short = self.has_io_size and self.this_bytes < self.byte_limit and self.nr_issued > 0
        if not is_short:
            if self.loops_left <= 1 and not self.spec.time_based:
                return False
            self.loops_left -= 1
            self.this_bytes = 0
        if self.nr_issued == 0:
            return False
        self.pattern.restart()
        return True

    def terminate(self) -> None:
        """Stop after the I/Os in flight."""
        self.is_terminated = True
        if self.phase == PHASE_RATE or self.phase == PHASE_THINK:
            self.sleep_until_ns = 0
            self.machine.wake_task(self)

    def finish(self) -> None:
        """End the thread."""
        self.phase = PHASE_DONE
        stat = self.stat
        stat.finish(self.machine.now_ns())
        stat.usr_ns += self.utime_ns
        stat.sys_ns += self.stime_ns
        stat.context_switches += self.nr_switches
        stat.error = int(self.error)
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

    def due_ns(self, ddir: i64, nbytes: i64) -> i64:
        """Return when the next I/O of this direction may begin, and count it in; 0 for no limit."""
        bps = self.rate_bps[ddir]
        if bps == 0:
            return 0
        done = self.rate_bytes[ddir]
        self.rate_bytes[ddir] = done + nbytes
        if self.is_poisson:
            due = self.poisson_due_us[ddir]
            mean_us = self.spec.bs_min[ddir] * 1_000_000 // bps
            self.poisson_due_us[ddir] = due + exponential(self.poisson[ddir], mean_us)
            return self.rate_start_ns + due * 1000
        whole = done // bps
        return self.rate_start_ns + (whole * 1_000_000 + (done - whole * bps) * 1_000_000 // bps) * 1000

    def check_rate_min(self, now: i64) -> None:
        """Fail the job when a cycle brought less than rate_min or rate_iops_min asks."""
        rate = self.spec.rate
        span_ms = (now - self.rate_check_ns + rate.cycle_ns) // 1_000_000
        for ddir in range(3):
            direction = self.stat.directions[ddir]
            nbytes = direction.io_bytes - self.rate_seen_bytes[ddir]
            ios = direction.done_ios - self.rate_seen_ios[ddir]
            self.rate_seen_bytes[ddir] = direction.io_bytes
            self.rate_seen_ios[ddir] = direction.done_ios
            if rate.bytes_per_s_min[ddir] > 0 and nbytes * 1000 // span_ms < rate.bytes_per_s_min[ddir]:
                self.fail(ETIMEDOUT, f"rate_min of {rate.bytes_per_s_min[ddir]} bytes/s not met")
            elif rate.iops_min[ddir] > 0 and ios * 1000 // span_ms < rate.iops_min[ddir]:
                self.fail(ETIMEDOUT, f"rate_iops_min of {rate.iops_min[ddir]} not met")
        self.rate_check_ns = now + rate.cycle_ns

    # -- one I/O

    def book(self, unit: IoUnit, now: i64) -> None:
        """Count a completed unit."""
        unit.is_done = False
        self.nr_completed += 1
        if unit.status != BLK_STS_OK:
            self.nr_failed += 1
            errno = STATUS_ERRNO.get(int(unit.status), 5)
            self.fail(errno, f"I/O error at offset {unit.offset}")
            return
        self.stat.completed(unit.ddir, unit.nbytes, now - unit.issued_ns, now - unit.started_ns, now)
        if now >= self.rate_check_ns:
            self.check_rate_min(now)

    def count_issue(self, unit: IoUnit) -> None:
        """Count a unit that is about to be issued."""
        self.nr_issued += 1
        # fio compares a trimwrite job's size with its writes alone.
        if unit.ddir != TRIM or not self.pattern.is_trimwrite:
            self.this_bytes += unit.nbytes

    def wants_think(self) -> bool:
        """Say whether a pause is due after this I/O: by blocks, or by time since the last pause."""
        spec = self.spec
        if spec.thinktime_iotime_ns > 0:
            if self.machine.now_ns() - self.last_think_ns >= spec.thinktime_iotime_ns:
                return True
            if spec.thinktime_blocks == 1:
                return False
        blocks = self.nr_issued if self.think_by_issue else self.nr_completed
        return blocks > 0 and blocks % spec.thinktime_blocks == 0

    def think(self) -> None:
        """Begin the pause: spin first, then sleep."""
        spec = self.spec
        spin = min(spec.thinktime_spin_ns, spec.thinktime_ns)
        until = self.machine.now_ns() + spec.thinktime_ns
        self.last_think_ns = until
        if spec.rate.ignore_thinktime:
            self.rate_start_ns += spec.thinktime_ns
        if spin > 0:
            self.machine.spin(spin)
        self.sleep_until(until, PHASE_THINK)

    # -- fsync

    def begin_fsync(self, phase: i64) -> None:
        """Enter fsync() of the file that was used last; go on in `phase`."""
        machine = self.machine
        machine.trace.user_io(self)
        self.fsync_started_ns = machine.now_ns()
        machine.trace.sys_enter(self, SYS_FSYNC)
        self.phase = phase
        bdev = self.pattern.files[self.fsync_file].bdev
        if bdev is None:
            self.fsync_call = None
        elif self.fsync_call is None or self.fsync_call.bdev is not bdev:
            self.fsync_call = FsyncCall(bdev, self)

    def fsync_ended(self) -> bool:
        """Go on with fsync(); True when it has returned."""
        call = self.fsync_call
        if call is not None and not call.advance():
            return False
        self.machine.trace.sys_exit(self, SYS_FSYNC, 1)
        if call is not None and call.flush_status != BLK_STS_OK:
            self.fail(STATUS_ERRNO.get(int(call.flush_status), 5), "fsync failed")
        return True

    def book_fsync(self) -> None:
        """Count a completed fsync."""
        self.stat.synced(self.machine.now_ns() - self.fsync_started_ns)


def op_of(ddir: i64) -> i64:
    """Return the block operation of a direction."""
    if ddir == WRITE:
        return REQ_OP_WRITE
    if ddir == TRIM:
        return REQ_OP_DISCARD
    return REQ_OP_READ


def exponential(rand: FioRandom, mean: i64) -> i64:
    """Draw from an exponential distribution of that mean, by fio's integer-free formula."""
    return i64(int(negative_log(rand.unit()) * float(int(mean))))


def negative_log(u: float) -> float:
    """Return -ln(u) for u in [0, 1); 0 counts as the smallest draw."""
    return -math.log(u if u > 0.0 else 1.0 / 4294967296.0)
