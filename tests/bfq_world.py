"""BFQ on the simulated machine: a BfqWorld builds a Scene (bfq_scenes.py), fires one event at a time, and audits.

The structure is bfq_audit.py's, single decisions are watched by bfq_watch.py; progress and the end are looked at here.
"""

from __future__ import annotations

from typing import Any

from bfq_audit import History, audit, audit_drained
from bfq_scenes import MS, SEC, Scene, Script, Step
from bfq_watch import WatchLog

from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.scheduler import Bfq
from blktwin.block.bio import BLK_STS_OK, Bio
from blktwin.block.driver import Driver
from blktwin.block.limits import QueueLimits, segments_of_op
from blktwin.block.machine import Task, Timer
from blktwin.block.plug import Plug
from blktwin.block.queue import RequestQueue
from blktwin.block.request import Request
from blktwin.block.rules import preset
from blktwin.block.submit import about_to_sleep, finish_plug, resume_submission, start_plug, submit_bio
from blktwin.rng import Rng
from blktwin.sim.costs import Costs
from blktwin.sim.devices.base import SimDevice, Slot
from blktwin.sim.events import Event
from blktwin.sim.faults import Faults
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import CostTrace

CAPACITY = 1 << 24
DEV = (8, 0)
COSTS_NS = {"submit": 300, "alloc": 100, "issue": 400, "complete": 200, "switch": 500, "work": 100, "irq": 100}
MAX_EVENTS = 200_000


class WatchBio(Bio):
    """A bio that counts its ends."""

    def __init__(self, task: ScriptTask) -> None:
        super().__init__()
        self.task = task
        self.ends = 0

    def end_io(self) -> None:
        """Tell the task."""
        self.ends += 1
        self.task.bio_done()


class Alarm(Timer):
    """Wakes a task."""

    def __init__(self, task: ScriptTask) -> None:
        super().__init__()
        self.task = task

    def fire(self) -> None:
        """Wake it."""
        self.task.world.sim.wake_task(self.task)


class ScriptTask(Task):
    """Follows a script, then exits; it does not wait for what is in flight then."""

    def __init__(self, world: BfqWorld, pid: int, script: Script) -> None:
        super().__init__(pid, f"t{pid}", world.sim.cgroups.get(script.cgroup))
        self.world = world
        self.steps = script.steps
        self.ioprio = script.ioprio
        self.at = 0
        self.in_flight = 0
        self.wakes_at = -1
        self.wakes_below = -1
        self.alarm = Alarm(self)
        self.own_plug = Plug()
        self.is_done = False

    def bio_done(self) -> None:
        """Wake up when few enough are in flight."""
        self.in_flight -= 1
        if 0 <= self.in_flight <= self.wakes_below:
            self.world.sim.wake_task(self)

    def run(self) -> None:
        """Go on until it sleeps."""
        if self.is_done or (self.is_blocked and not resume_submission(self)):
            return
        machine = self.world.sim
        while self.at < len(self.steps):
            step = self.steps[self.at]
            if step[0] == "wait":
                about_to_sleep(machine, self)
                if self.in_flight > step[1]:
                    self.wakes_below = step[1]
                    return
                self.wakes_below = -1
            elif step[0] == "sleep":
                if self.wakes_at < 0:
                    about_to_sleep(machine, self)
                    self.wakes_at = int(machine.now_ns()) + step[1]
                    machine.arm_timer(self.alarm, self.wakes_at)
                if machine.now_ns() < self.wakes_at:
                    return
                self.wakes_at = -1
            elif step[0] == "io":
                self.at += 1
                self.in_flight += 1
                self.world.submit(self, step)
                if self.is_blocked:
                    return
                continue
            elif step[0] == "again":
                self.at = step[1]
                continue
            else:
                self.do(step)
            self.at += 1
        if self.plug is not None:
            finish_plug(machine, self)
        self.is_done = True
        self.io_context.exit_task()

    def do(self, step: Step) -> None:
        """Do what takes no time."""
        if step[0] == "plug" and self.plug is None:
            start_plug(self, self.own_plug)
        elif step[0] == "unplug" and self.plug is not None:
            finish_plug(self.world.sim, self)
        elif step[0] == "prio":
            self.ioprio = step[1]
        elif step[0] == "move":
            group = self.world.sim.cgroups.get(step[1])
            if group.is_online:
                self.cgroup = group


class SceneDevice(SimDevice):
    """Some channels, each serving one request at a time; now and then a request comes back."""

    def __init__(self, world: BfqWorld, scene: Scene) -> None:
        super().__init__(world.sim, 1, scene.depth)
        self.world = world
        self.free_at = [0] * scene.channels
        self.latency_ns = scene.latency_ns
        self.rng = Rng(scene.seed, 50)
        self.bounce_ppm = scene.bounce_ppm

    def done_at_ns(self, rq: Request, now_ns: int) -> int:
        """Return when it is done."""
        least = min(range(len(self.free_at)), key=lambda at: self.free_at[at])
        start = max(self.free_at[least], int(now_ns))
        size_ns = self.latency_ns * int(rq.nr_sectors) // 256
        self.free_at[least] = start + self.latency_ns + size_ns + int(rq.sector % 7) * 100
        return self.free_at[least]

    def interrupt(self, slot: Slot) -> None:
        """Complete, or give back."""
        rq = slot.rq
        assert rq is not None
        if self.bounce_ppm and self.rng.below(1_000_000) < self.bounce_ppm:
            slot.rq = None
            self.in_device -= 1
            self.world.history.bounced.append(rq)
            self.machine.enter_irq(slot.cpu, 0)
            rq.q.requeue_request(rq)
            self.machine.leave_irq()
            return
        super().interrupt(slot)


class SceneDriver(Driver):
    """Starts and hands over."""

    def __init__(self, device: SceneDevice) -> None:
        self.device = device
        self.has_commit_rqs = True

    def queue_rq(self, rq: Request, last: bool) -> int:
        """Start rq and submit it."""
        rq.q.start_request(rq)
        return self.device.submit(rq)


class ChangeEvent(Event):
    """Somebody writes to a file, or removes a cgroup."""

    def __init__(self, world: BfqWorld, change: tuple[Any, ...]) -> None:
        super().__init__()
        self.world = world
        self.change = change

    def fire(self) -> None:
        """Do it, as a system call that costs nothing."""
        world = self.world
        world.sim.enter_irq(0, 0)
        world.change(self.change)
        world.sim.leave_irq()
        world.log.is_dirty = True


class BfqWorld(CostTrace):
    """Builds a Scene; run() fires one event at a time and looks after each."""

    def __init__(self, scene: Scene, log: WatchLog | None = None) -> None:
        costs = Costs()
        costs.update(COSTS_NS)
        super().__init__(costs)
        self.scene = scene
        faults = Faults(scene.seed, {"refuse_ppm": scene.refuse_ppm} if scene.refuse_ppm else {})
        self.sim = SimMachine(self, nr_cpus=scene.cpus, hz=scene.hz, costs=costs, faults=faults)
        self.bind(self.sim)
        self.limits = QueueLimits()
        self.limits.is_rotational = scene.is_rotational
        self.device = SceneDevice(self, scene)
        self.bfq = Bfq()
        self.log = WatchLog() if log is None else log
        self.bfq.log = self.log
        rules = preset(scene.rules) if isinstance(scene.rules, str) else scene.rules
        assert rules is not None
        self.q = RequestQueue(
            self.sim,
            rules,
            SceneDriver(self.device),
            self.limits,
            name="sda",
            capacity_sectors=CAPACITY,
            queue_depth=scene.depth,
            nr_requests=scene.nr_requests,
            elevator=self.bfq,
        )
        self.q.dev = DEV
        self.bfqd = self.bfq.data()
        self.bios: list[WatchBio] = []
        self.quiet_since_ns = -1
        for name, value in scene.tunables.items():
            self.bfq.set_tunable(name, value)
        for path, weight in scene.weights.items():
            self.sim.cgroups.get(path).set_weight(weight)
        self.tasks = [ScriptTask(self, pid + 1, script) for pid, script in enumerate(scene.scripts)]
        self.history = History(list(self.tasks))
        for task, script in zip(self.tasks, scene.scripts, strict=True):
            self.sim.start_task(task, task.pid % scene.cpus, script.start_ns + 100 * task.pid)
        for change in scene.changes:
            self.sim.events.at(ChangeEvent(self, change), change[0])

    def rq_issue(self, rq: Request) -> None:
        """D: one that came back once went past the queues this time."""
        super().rq_issue(rq)
        history = self.history
        if any(one is rq for one in history.bounced):
            history.bounced = [one for one in history.bounced if one is not rq]
            assert isinstance(rq.elv, BfqQueue)
            history.bypassing.append(rq.elv)

    def submit(self, task: ScriptTask, step: Step) -> None:
        """Submit one bio of a script."""
        bio = WatchBio(task)
        _, bio.op, bio.flags, bio.sector, bio.nr_sectors = step
        bio.nr_segments = segments_of_op(bio.op, bio.nr_sectors)
        self.bios.append(bio)
        submit_bio(self.q, bio)

    def change(self, change: tuple[Any, ...]) -> None:
        """Do what a change says."""
        kind = change[1]
        if kind == "tunable":
            self.bfq.set_tunable(change[2], change[3])
            return
        group = self.sim.cgroups.get(change[2])
        if kind == "weight":
            group.set_weight(change[3])
        elif kind == "dev_weight":
            group.set_dev_weight(DEV, change[3])
        elif kind == "remove":
            for path in sorted(self.sim.cgroups.by_path, reverse=True):
                if path == change[2] or path.startswith(change[2] + "/"):
                    self.sim.cgroups.get(path).go_offline()

    def run(self, until_ns: int = 1 << 62) -> int:
        """Run to the end; return how many events that took."""
        sim, log, bfqd = self.sim, self.log, self.bfqd
        fired = 0
        while sim.run(until_ns, 1):
            fired += 1
            assert fired < MAX_EVENTS, "the world does not come to rest"
            self.look_for_progress()
            if log.is_dirty:
                log.is_dirty = False
                self.history.has_moved = log.seen["moved"] > 0
                self.history.has_raised = log.seen["raised"] > 0
                audit(bfqd, self.history)
        return fired

    def look_for_progress(self) -> None:
        """No deadlock (spec §8.2-1): requests wait for nothing in flight only as long as BFQ may idle."""
        bfqd = self.bfqd
        if bfqd.queued == 0 or bfqd.tot_rq_in_driver > 0:
            self.quiet_since_ns = -1
            return
        now_ns = int(self.sim.events.now_ns)
        if self.quiet_since_ns < 0:
            self.quiet_since_ns = now_ns
        # The 3 ms of a delayed run are jiffies, rounded up, and another tick (a timer is never early).
        tick_ns = SEC // self.scene.hz
        bound_ns = max(int(bfqd.slice_idle_ns), 20 * MS) + 3 * MS + 2 * tick_ns
        assert now_ns - self.quiet_since_ns <= bound_ns, f"{bfqd.queued} requests wait, and nothing is in flight"

    def check_end(self) -> None:
        """Every bio has ended once, and nothing is held or left."""
        for task in self.tasks:
            assert task.is_done, f"{task.comm} stands at step {task.at}, blocked: {task.is_blocked}"
        for bio in self.bios:
            assert bio.ends == 1, f"the bio at {bio.sector} ended {bio.ends} times"
            assert bio.status == BLK_STS_OK
        q = self.q
        assert q.nr_started == q.nr_completed
        assert q.stats.in_flight == 0
        assert q.rqhash == [None] * len(q.rqhash)
        for hctx in q.hctxs:
            assert hctx.tags.in_use() == 0
            assert hctx.sched_tags is not None
            assert hctx.sched_tags.in_use() == 0
        audit_drained(self.bfqd, self.history)


def run_scene(scene: Scene) -> BfqWorld:
    """Run a scene to its end under all checks."""
    world = BfqWorld(scene)
    world.run()
    world.check_end()
    return world
