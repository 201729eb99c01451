"""Loop devices on the simulated machine: a LoopStorm builds a Scene (loop_scenes.py) and fires one event at a time.

What must hold is looked at by loop_audit.py after each event; what an image may hold is known to loop_history.py.
"""

from __future__ import annotations

from contextlib import suppress

import loop_files
from loop_audit import LoopAudit
from loop_history import SECTOR, History, payload
from loop_scenes import APART, FREE, GUARDED, IMAGE_SECTORS, Loop, Scene, Script, Step
from loop_tasks import LoopBio, LoopTask

from blktwin.block.bfq.scheduler import Bfq
from blktwin.block.bio import (
    BLK_STS_AGAIN,
    BLK_STS_NOTSUPP,
    BLK_STS_OK,
    REQ_FUA,
    REQ_NOWAIT,
    REQ_OP_DISCARD,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
    REQ_PREFLUSH,
)
from blktwin.block.deadline import Deadline
from blktwin.block.elevator import Elevator
from blktwin.block.limits import QueueLimits, segments_of_op
from blktwin.block.machine import Task
from blktwin.block.queue import RequestQueue
from blktwin.block.request import Request
from blktwin.block.rules import Rules, preset
from blktwin.block.submit import submit_bio
from blktwin.drivers.backing import Backing
from blktwin.drivers.hardware import HardwareDriver
from blktwin.drivers.loop.config import LoopConfig
from blktwin.drivers.loop.device import LoopDevice
from blktwin.errors import ConfigError
from blktwin.rng import Rng
from blktwin.sim.costs import Costs
from blktwin.sim.devices.base import SimDevice
from blktwin.sim.faults import Faults
from blktwin.sim.image import Image
from blktwin.sim.machine import SimMachine
from blktwin.sim.stages import StageTrace
from blktwin.sim.topology import CpuSpec

DISK_SECTORS = 1 << 16
LATER_PID = 5_000
SWEEPER_PID = 9_000
COSTS_NS = {
    "submit": 300,
    "alloc": 100,
    "issue": 400,
    "complete": 200,
    "switch": 500,
    "work": 100,
    "irq": 100,
    "wake": 100,
    "loop": 400,
    "file_op": 700,
    "file_done": 200,
}


class DiskDevice(SimDevice):
    """The disk below: one latency by size, and a little by place, so that requests overtake."""

    def __init__(self, machine: SimMachine, scene: Scene, nr_queues: int) -> None:
        super().__init__(machine, nr_queues, scene.disk_depth)
        self.ns = scene.disk_ns

    def done_at_ns(self, rq: Request, now_ns: int) -> int:
        """Return when it is done."""
        return int(now_ns) + self.ns + int(rq.nr_sectors) * self.ns // 64 + int(rq.sector % 61) * 100


def elevator_of(name: str) -> Elevator | None:
    """Make a scheduler."""
    return Bfq() if name == "bfq" else Deadline() if name == "mq-deadline" else None


class LoopStorm(StageTrace):
    """Builds a Scene; it is the machine's tracepoints too, and run() fires its events."""

    def __init__(self, scene: Scene) -> None:
        costs = Costs()
        costs.update(COSTS_NS | scene.costs)
        super().__init__(costs)
        self.scene = scene
        spec = CpuSpec()
        for name, value in scene.cpu_spec.items():
            assert hasattr(spec, name), f"CPUs have no {name}"
            setattr(spec, name, value)
        faults = Faults(scene.seed, scene.faults)
        self.sim = SimMachine(self, nr_cpus=scene.cpus, hz=250, costs=costs, faults=faults, spec=spec)
        self.bind(self.sim)
        self.sim.cpus_per_cache = max(1, scene.cpus // 2)
        rules = preset(scene.rules)
        assert rules is not None
        self.rules: Rules = rules
        self.clock = 0
        self.next_byte = 1 << 20
        """Where the next file begins on the disk."""
        self.bios: list[LoopBio] = []
        self.disk = self.make_disk()
        self.files: list[Backing] = []
        self.loops: list[LoopDevice] = []
        for at, loop in enumerate(scene.loops):
            self.add_loop(at, loop)
        self.histories = [History(IMAGE_SECTORS) for _ in scene.loops]
        for history in self.histories:
            history.is_lossy = scene.faults.get("io_error_ppm", 0) > 0
        self.tasks: list[LoopTask] = []
        self.audit = LoopAudit(self)
        self.rng = Rng(scene.seed, 99)
        self.start(scene.scripts, 1)

    def start(self, scripts: list[Script], first_pid: int) -> None:
        """Start tasks."""
        now_ns = int(self.sim.events.now_ns)
        for pid, script in enumerate(scripts, first_pid):
            task = LoopTask(self, pid, script)
            self.tasks.append(task)
            self.sim.start_task(task, pid % self.scene.cpus, now_ns + script.start_ns + 100 * pid)

    # -- building

    def make_disk(self) -> RequestQueue:
        """Build the disk that all files are on."""
        scene = self.scene
        limits = QueueLimits()
        limits.max_sectors = 64
        limits.has_write_cache = scene.disk_has_cache
        limits.has_fua = scene.disk_has_fua
        if not scene.disk_zeroes:
            limits.max_write_zeroes_sectors = limits.max_discard_sectors = 0
        nr_queues = min(scene.disk_hw_queues, scene.cpus)
        self.disk_device = DiskDevice(self.sim, scene, nr_queues)
        self.store = self.disk_device.store = Image(scene.disk_has_cache)
        q = RequestQueue(
            self.sim,
            self.rules,
            HardwareDriver(self.disk_device),
            limits,
            name="disk",
            capacity_sectors=DISK_SECTORS,
            nr_hw_queues=nr_queues,
            queue_depth=scene.disk_depth,
            elevator=elevator_of(scene.disk_scheduler),
        )
        q.dev = (259, 0)
        return q

    def add_loop(self, at: int, loop: Loop) -> None:
        """Build one loop device and its file."""
        config = LoopConfig()
        config.policy = loop.policy
        config.direct_io = loop.is_direct
        config.nr_hw_queues = min(loop.hw_queues, self.scene.cpus)
        config.queue_depth = loop.depth
        config.hint = loop.hint
        config.nowait_variant = loop.variant
        config.batch_plug = loop.batch_plug
        config.read_only = loop.is_read_only
        config.offset_bytes = loop.offset_bytes
        config.sizelimit_bytes = loop.sizelimit_bytes
        config.compat.enable(loop.compat)
        file = self.make_file(at, loop)
        if loop.below == "bdev":
            # Its part of the whole disk.
            config.offset_bytes += self.next_byte
            config.sizelimit_bytes = loop_files.image_bytes(self, at)
            self.next_byte += config.sizelimit_bytes + 2 * loop_files.PAGE_BYTES
        self.files.append(file)
        device = LoopDevice(self.sim, self.rules, f"loop{at}", config, file, elevator_of(loop.scheduler), 0)
        device.q.dev = (7, at)
        device.driver.nr_failing_preps = loop.failing_preps
        device.driver.nr_failing_workers = loop.failing_workers
        if loop.max_sectors:
            device.limits.max_sectors = loop.max_sectors
        self.loops.append(device)

    def make_file(self, at: int, loop: Loop) -> Backing:
        """Build the file below a loop device."""
        return loop_files.make_file(self, at, loop)

    # -- what tasks do

    def tick(self) -> int:
        """Count what happens: a clock that orders everything."""
        self.clock += 1
        return self.clock

    def range_of(self, step: Step) -> tuple[int, int]:
        """Return where an I/O goes: in whole logical blocks of its device."""
        _, loop, _, _, first, length = step
        block = int(self.loops[loop].limits.logical_block_bytes) // SECTOR
        first -= first % block
        return first, -(-length // block) * block

    def must_wait(self, task: LoopTask, step: Step) -> bool:
        """Say whether an I/O would overlap what is in flight, and must not."""
        if self.scene.mode == FREE or step[5] == 0:
            return False
        first, length = self.range_of(step)
        others = task.in_flight if self.scene.mode == APART else [bio for one in self.tasks for bio in one.in_flight]
        is_read = step[2] == REQ_OP_READ
        return any(
            bio.loop == step[1] and bio.meets(first, length) and not (is_read and bio.op == REQ_OP_READ)
            for bio in others
        )

    def submit(self, task: LoopTask, step: Step) -> None:
        """Submit one bio of a script."""
        _, loop, op, flags, _, _ = step
        bio = LoopBio(self, task, loop)
        bio.op, bio.flags = op, flags
        bio.wants = flags
        bio.first, bio.length = self.range_of(step)
        bio.sector, bio.nr_sectors = bio.first, bio.length
        bio.nr_segments = segments_of_op(op, bio.length)
        bio.queued_at = self.tick()
        self.histories[loop].nr_flushing += bio.flushes()
        self.bios.append(bio)
        task.in_flight.append(bio)
        if op == REQ_OP_WRITE and bio.length:
            task.nr_writes += 1
            serial = task.pid << 32 | task.nr_writes
            bio.data = payload(serial, bio.first, bio.length)
            bio.effect = self.histories[loop].write(serial, bio.first, bio.length, bio.queued_at)
        elif op in (REQ_OP_DISCARD, REQ_OP_WRITE_ZEROES):
            bio.effect = self.histories[loop].write(0, bio.first, bio.length, bio.queued_at)
        elif op == REQ_OP_READ:
            bio.data = bytearray(b"\xee" * (bio.length * SECTOR))
        submit_bio(self.loops[loop].q, bio)

    def bio_ended(self, bio: LoopBio) -> None:
        """See a bio end: what it has read, written and made durable."""
        bio.ends += 1
        bio.ended_at = now = self.tick()
        assert bio.ends == 1, f"I1: the {self.name_of(bio)} ends again"
        history = self.histories[bio.loop]
        is_ok = bio.status == BLK_STS_OK
        self.check_status(bio)
        history.nr_flushing -= bio.flushes()
        if bio.effect is not None:
            history.ended(bio.effect, is_ok, bool(bio.wants & REQ_FUA), now)
        elif bio.op == REQ_OP_READ and is_ok:
            assert bio.data is not None
            history.look(bytes(bio.data), bio.first, bio.queued_at, now)
        if bio.wants & REQ_PREFLUSH or (bio.wants & REQ_FUA and not is_ok):
            history.flushed(bio.queued_at, is_ok, now)
        task = bio.task
        task.in_flight.remove(bio)
        for one in self.tasks if self.scene.mode == GUARDED else [task]:
            if one.is_waiting:
                self.sim.wake_task(one)

    def check_status(self, bio: LoopBio) -> None:
        """I5: an error has a cause: only NOWAIT may end in EAGAIN, only discards can be unsupported."""
        status = bio.status
        if status == BLK_STS_AGAIN:
            is_meant = bio.wants & REQ_NOWAIT or self.scene.loops[bio.loop].dice.stubborn
            assert is_meant, f"L3: the {self.name_of(bio)} ends in EAGAIN"
        elif status == BLK_STS_NOTSUPP:
            assert bio.op > REQ_OP_WRITE, f"I5: the {self.name_of(bio)} is not supported"
        elif status != BLK_STS_OK:
            loop = self.scene.loops[bio.loop]
            has_cause = loop.has_errors() or "io_error_ppm" in self.scene.faults
            assert has_cause, f"I5: the {self.name_of(bio)} fails without a cause ({status})"

    def name_of(self, bio: LoopBio) -> str:
        """Name a bio."""
        return f"bio {bio.op} at {bio.first}+{bio.length} of loop{bio.loop}"

    # -- images

    def image(self, loop: int) -> bytes:
        """Return what a device's image holds now."""
        return loop_files.image_of(self, loop)

    def power_cut(self, loop: int) -> bytes:
        """Return what a power cut now would leave of a device's image."""
        return loop_files.after_power_cut(self, loop)

    # -- what passes

    def plug(self, task: Task) -> None:
        """P."""
        super().plug(task)
        self.audit.plug(task)

    def rq_issue(self, rq: Request) -> None:
        """D."""
        super().rq_issue(rq)
        self.audit.rq_issue(rq)

    def rq_complete(self, rq: Request, status: int, nr_bytes: int) -> None:
        """C."""
        super().rq_complete(rq, status, nr_bytes)
        self.audit.rq_complete(rq, nr_bytes)

    def loop_work(self, rq: Request, reason: int) -> None:
        """W."""
        super().loop_work(rq, reason)
        self.audit.loop_work(rq, reason)

    def loop_begin(self, rq: Request, task: Task, reason: int) -> None:
        """X."""
        super().loop_begin(rq, task, reason)
        self.audit.loop_begin(rq, task, reason)

    # -- running

    def run(self) -> int:
        """Run to the end under all checks, with a look at what a power cut would leave now and then."""
        fired = self.run_tasks()
        self.check_images()
        if self.scene.later:
            for device in self.loops:
                switch_direct_io(device)
            self.start(self.scene.later, LATER_PID)
            fired += self.run_tasks()
            self.check_images()
        self.sweep()
        fired += self.run_tasks()
        self.finish()
        for device in self.loops[::-1]:
            device.clear()
            assert device.state == "unbound", f"L4: {device.name} is {device.state}"
            workers = device.driver.idle_workers
            assert workers.nr_made == workers.nr_freed, f"L4: {device.name} has kept workers"
        return fired

    def run_tasks(self) -> int:
        """Fire all events that there are."""
        sim = self.sim
        fired = 0
        cut_at = int(self.rng.below(100))
        while sim.run(1 << 62, 1):
            fired += 1
            assert fired < self.scene.max_events, "L3: the world does not come to rest"
            self.audit.look()
            if fired == cut_at:
                self.check_power_cut()
                cut_at += 50 + int(self.rng.below(300))
        self.audit.check_end()
        return fired

    def sweep(self) -> None:
        """Let one more task read every image: what the devices say must agree with the files."""
        leaves = self.scene.leaves()
        steps = [("io", loop, REQ_OP_READ, 0, at, 64) for loop in leaves for at in range(0, IMAGE_SECTORS, 64)]
        self.start([Script("/", 0, steps)], SWEEPER_PID)

    def check_power_cut(self) -> None:
        """I6, I7, I8: see what is left; a device below that loses writeback without a word leaves no promise above."""
        for loop, history in enumerate(self.histories):
            is_told = not history.is_lossy or self.scene.loops[loop].below != "loop"
            image = self.power_cut(loop) if self.scene.is_leaf(loop) and is_told else b""
            if image:
                history.check_crash(image, self.tick())

    def check_images(self) -> None:
        """I3, I5, I8: the image holds what was acknowledged, and the reads fit into one order."""
        for loop, history in enumerate(self.histories):
            if self.scene.is_leaf(loop):
                now = self.tick()
                image = self.image(loop)
                history.look(image, 0, now, now)
                assert not (self.loops[loop].driver.is_read_only and any(image)), "I10: a read-only image has changed"
                if self.scene.mode == FREE and not history.is_lossy:
                    history.linear()


def switch_direct_io(device: LoopDevice) -> None:
    """Switch direct I/O on or off, if the file can do the former."""
    with suppress(ConfigError):
        device.set_direct_io(not device.is_direct)


def run_scene(scene: Scene) -> LoopStorm:
    """Run a scene to its end under all checks."""
    world = LoopStorm(scene)
    world.run()
    return world
