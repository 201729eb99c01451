"""The submitters of loop_storm.py: bios with real bytes, and tasks that follow a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loop_history import Effect
from loop_scenes import Script

from blktwin.block.bio import REQ_FUA, REQ_PREFLUSH, Bio
from blktwin.block.machine import Task, Timer
from blktwin.block.plug import Plug
from blktwin.block.submit import about_to_sleep, finish_plug, resume_submission, start_plug

if TYPE_CHECKING:
    from loop_storm import LoopStorm


class LoopBio(Bio):
    """A bio with real bytes; a write's name its serial."""

    def __init__(self, world: LoopStorm, task: LoopTask, loop: int) -> None:
        super().__init__()
        self.world = world
        self.task = task
        self.loop = loop
        self.first = self.length = 0
        """As submitted: splits and parts change sector and nr_sectors."""
        self.number = task.at
        """Its place in the script."""
        self.wants = 0
        """The flags it was submitted with."""
        self.effect: Effect | None = None
        self.queued_at = self.ended_at = -1
        self.ends = 0

    def end_io(self) -> None:
        """Tell the world."""
        self.world.bio_ended(self)

    def flushes(self) -> bool:
        """Say whether it asks for a flush, before or behind."""
        return self.wants & (REQ_PREFLUSH | REQ_FUA) != 0

    def meets(self, first: int, length: int) -> bool:
        """Say whether it shares a sector with a range."""
        return self.first < first + length and first < self.first + self.length


class Alarm(Timer):
    """Wakes a task."""

    def __init__(self, task: LoopTask) -> None:
        super().__init__()
        self.task = task

    def fire(self) -> None:
        """Wake it."""
        self.task.world.sim.wake_task(self.task)


class LoopTask(Task):
    """Follows a script."""

    def __init__(self, world: LoopStorm, pid: int, script: Script) -> None:
        super().__init__(pid, f"t{pid}", world.sim.cgroups.get(script.cgroup))
        self.world = world
        self.steps = script.steps
        self.at = 0
        self.in_flight: list[LoopBio] = []
        self.nr_writes = 0
        """Their bytes do not depend on what other tasks do."""
        self.is_waiting = False
        self.wakes_at = -1
        self.alarm = Alarm(self)
        self.own_plug = Plug()
        self.is_done = False

    def run(self) -> None:
        """Go on until it sleeps."""
        if self.is_done or (self.is_blocked and not resume_submission(self)):
            return
        machine = self.world.sim
        self.is_waiting = False
        while self.at < len(self.steps):
            step = self.steps[self.at]
            if step[0] == "io":
                if self.world.must_wait(self, step):
                    about_to_sleep(machine, self)
                    if self.world.must_wait(self, step):
                        self.is_waiting = True
                        return
                self.at += 1
                self.world.submit(self, step)
                if self.is_blocked:
                    return
                continue
            if step[0] == "wait" and not self.waits(step[1]):
                return
            if step[0] == "sleep" and not self.sleeps(step[1]):
                return
            if step[0] == "plug" and self.plug is None:
                start_plug(self, self.own_plug)
            elif step[0] == "unplug" and self.plug is not None:
                finish_plug(machine, self)
            elif step[0] == "cpu":
                # Preempted, and moved; what it has plugged moves with it.
                self.cpu = step[1]
            self.at += 1
        if self.plug is not None:
            finish_plug(machine, self)
        self.is_done = True

    def waits(self, at_most: int) -> bool:
        """Say whether few enough bios are in flight; else the task sleeps."""
        about_to_sleep(self.world.sim, self)
        self.is_waiting = len(self.in_flight) > at_most
        return not self.is_waiting

    def sleeps(self, ns: int) -> bool:
        """Say whether the task has slept long enough; else it sleeps."""
        machine = self.world.sim
        if self.wakes_at < 0:
            about_to_sleep(machine, self)
            self.wakes_at = int(machine.now_ns()) + ns
            machine.arm_timer(self.alarm, self.wakes_at)
        if machine.now_ns() < self.wakes_at:
            return False
        self.wakes_at = -1
        return True
