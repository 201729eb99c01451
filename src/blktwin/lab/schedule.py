"""When each thread starts: startdelay, stonewall, wait_for, exitall, as fio's main loop decides.

Also keeps the window in which every thread of the run is at work.
"""

from __future__ import annotations

from collections import Counter

from blktwin.fio.job import IoThread, ThreadWatcher
from blktwin.fio.random_state import RAND_START_DELAY, FioRandom
from blktwin.sim.events import Event
from blktwin.sim.machine import SimMachine
from blktwin.units import NSEC_PER_USEC

RAMP_MARGIN_NS = 10_000_000
"""A thread notices the end of its ramp at its next I/O."""


class StartEvent(Event):
    """A startdelay that ends."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule

    def fire(self) -> None:
        """Look for threads to start."""
        self.schedule.start_ready(int(self.schedule.machine.events.now_ns))


class WindowEvent(Event):
    """The end of the last ramp_time."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule

    def fire(self) -> None:
        """Open the common window."""
        self.schedule.open_window(int(self.schedule.machine.events.now_ns))


class Schedule(ThreadWatcher):
    """Starts threads; delays count from the start of the run."""

    def __init__(self, machine: SimMachine) -> None:
        super().__init__()
        self.machine = machine
        self.waiting: list[IoThread] = []
        self.running: list[IoThread] = []
        self.finished: list[IoThread] = []
        self.nr_unfinished: dict[str, int] = {}
        """Waiting and running threads by their job's name, for wait_for."""
        self.delay_ns: dict[int, int] = {}
        self.has_exitall = False
        """exitall in one job counts for the whole run."""
        self.all_from_ns = -1
        self.all_until_ns = -1
        self.bytes_from = [0, 0, 0]
        self.bytes_until = [0, 0, 0]

    def begin(self, threads: list[IoThread]) -> None:
        """Take the threads and start those that may."""
        self.waiting = list(threads)
        self.nr_unfinished = dict(Counter(thread.spec.name for thread in threads))
        self.has_exitall = any(thread.spec.exitall for thread in threads)
        for thread in threads:
            low, high = thread.spec.startdelay_ns
            if high > low:
                rand = FioRandom(thread.pattern.seeds[RAND_START_DELAY])
                low += int((high - low + NSEC_PER_USEC) * rand.unit()) // NSEC_PER_USEC * NSEC_PER_USEC
            self.delay_ns[thread.number] = low
        for delay in sorted(set(self.delay_ns.values()) - {0}):
            self.machine.events.at(StartEvent(self), delay)
        self.start_ready(0)

    def start_ready(self, now_ns: int) -> None:
        """Start what may start now, in fio's order; a stonewall holds all behind it."""
        still: list[IoThread] = []
        walled = False
        for thread in self.waiting:
            if walled or self.delay_ns[thread.number] > now_ns:
                still.append(thread)
            elif thread.spec.stonewall and self.running:
                walled = True
                still.append(thread)
            elif self.is_waiting_for(thread):
                still.append(thread)
            else:
                self.running.append(thread)
                self.machine.start_task(thread, thread.cpu, now_ns)
        self.waiting = still
        if not self.waiting and not self.finished and self.all_from_ns < 0:
            ramp_ns = max(thread.spec.ramp_time_ns for thread in self.running)
            if ramp_ns > 0:
                # Just after the last ramp: its end resets what the threads have counted.
                self.machine.events.at(WindowEvent(self), now_ns + ramp_ns + RAMP_MARGIN_NS)
            else:
                self.open_window(now_ns)

    def open_window(self, now_ns: int) -> None:
        """Begin the window in which all threads run, unless one has ended."""
        if not self.finished:
            self.all_from_ns = now_ns
            self.bytes_from = self.bytes_done()

    def is_waiting_for(self, thread: IoThread) -> bool:
        """Say whether a job named by wait_for has not ended; a job never waits for its own name."""
        name = thread.spec.wait_for
        return name != "" and name != thread.spec.name and self.nr_unfinished[name] > 0

    def bytes_done(self) -> list[int]:
        """Return bytes done so far, per direction, over all threads."""
        threads = self.running + self.finished
        return [sum(int(thread.stat.directions[ddir].io_bytes) for thread in threads) for ddir in range(3)]

    def thread_finished(self, thread: IoThread) -> None:
        """Close the common window, stop others if exitall says so, start who waited."""
        now = int(self.machine.now_ns())
        if self.all_from_ns >= 0 and self.all_until_ns < 0:
            self.all_until_ns = now
            self.bytes_until = self.bytes_done()
        self.running.remove(thread)
        self.finished.append(thread)
        self.nr_unfinished[thread.spec.name] -= 1
        if self.has_exitall or (thread.spec.exitall_on_error and thread.error):
            self.stop_group(thread.spec.group_id)
        if self.waiting:
            self.machine.events.at(StartEvent(self), now)

    def stop_group(self, group_id: int) -> None:
        """Stop the running jobs of a group, and never start those that wait; fio's default scope of exitall."""
        for thread in self.waiting:
            if thread.spec.group_id == group_id:
                self.nr_unfinished[thread.spec.name] -= 1
        self.waiting = [thread for thread in self.waiting if thread.spec.group_id != group_id]
        for thread in self.running:
            if thread.spec.group_id == group_id:
                thread.terminate()

    def common_window(self) -> dict[str, object] | None:
        """Return when all threads ran together and what they moved then, None if they never did."""
        if self.all_from_ns < 0:
            return None
        until = self.all_until_ns
        done = self.bytes_until
        if until < 0:
            until = int(self.machine.events.now_ns)
            done = self.bytes_done()
        span = until - self.all_from_ns
        if span <= 0:
            return None
        moved = [b - a for a, b in zip(self.bytes_from, done, strict=True)]
        names = ("read", "write", "trim")
        return {
            "from_ms": round(self.all_from_ns / 1e6, 3),
            "until_ms": round(until / 1e6, 3),
            **{
                f"{name}_mib_s": round(nbytes / span * 1e9 / (1 << 20), 2)
                for name, nbytes in zip(names, moved, strict=True)
            },
        }
