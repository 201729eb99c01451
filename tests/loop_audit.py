"""Every invariant of the loop driver (spec §7) that has a state, checked between events: LoopAudit(world).look().

Numbers in the complaints are the specification's: I1-I20 safety, L1-L4 liveness. The tracepoints check what passes.
I18 is asserted by the stop-watch itself (sim/stages.py), I3-I9 of the bytes by loop_history.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loop_queue_audit import audit_queue, audit_quiet, plugged

from blktwin.block.bio import REQ_OP_FLUSH
from blktwin.block.machine import Task
from blktwin.block.queue import RequestQueue
from blktwin.block.request import MQ_RQ_IN_FLIGHT, Request
from blktwin.drivers.backing import FILE_FSYNC, FILE_READ, FILE_WRITE
from blktwin.drivers.loop.command import CMD_BLOCKING, CMD_DONE, CMD_NEW, CMD_NOWAIT, CMD_QUEUED, LoopCommand
from blktwin.drivers.loop.device import LoopDevice
from blktwin.drivers.loop.reasons import REASON_INLINE, REASON_SHORT
from blktwin.drivers.loop.worker import IDLE_WORKER_NS, LoopWorker

if TYPE_CHECKING:
    from loop_storm import LoopStorm


AHEAD_NS = 1_000_000


class DeviceAudit:
    """What is remembered of one loop device between two looks."""

    def __init__(self, device: LoopDevice) -> None:
        self.device = device
        self.driver = device.driver
        self.q: RequestQueue = device.q
        self.name = device.q.name
        self.serial = 0
        self.queued_as: dict[int, int] = {}
        """Serial of the last loop_work() of a request, by id."""
        self.begun: dict[int, int] = {}
        """Serial of the last command that each list gave up, by the list's key."""
        self.attempts: dict[int, int] = {}
        """Inline attempts since a request was issued."""
        self.handed: dict[int, int] = {}
        """How often it was given to a worker since then, for the rest of a short write apart."""
        self.idle: list[LoopWorker] = []
        self.allocated: list[Request] = [rq for hctx in self.q.hctxs for rq in hctx.requests]
        self.allocated += [hctx.fq.flush_rq for hctx in self.q.hctxs if hctx.fq is not None]

    def commands(self) -> list[LoopCommand]:
        """Return the commands of all requests, the flush queues' included."""
        out: list[LoopCommand] = []
        for rq in self.allocated:
            if rq.pdu is not None:
                assert isinstance(rq.pdu, LoopCommand)
                out.append(rq.pdu)
        return out

    def check_hint(self, rq: Request) -> None:
        """P4: no write is tried while another one waits for a worker."""
        backing = self.driver.backing
        if rq.op == FILE_WRITE and self.driver.has_hint and backing is not None and not backing.is_block_device:
            nr = int(self.driver.nr_blocking_writes)
            assert nr == 0, f"P4: {self.name}: a write is tried while {nr} wait for a worker"

    def workers(self) -> list[LoopWorker]:
        """Return the root worker and those of cgroups."""
        return [self.driver.root_worker, *(one for one in self.driver.idle_workers.by_serial if one is not None)]


def key_of(cmd: LoopCommand) -> int:
    """Return the serial of the cgroup whose worker has cmd, 0 for the root worker."""
    return cmd.cgroup.serial if cmd.is_charged and cmd.cgroup is not None else 0


def in_list(worker: LoopWorker) -> list[LoopCommand]:
    """List a worker's commands."""
    out: list[LoopCommand] = []
    cmd = worker.head
    while cmd is not None:
        assert not any(one is cmd for one in out), "I15: a worker's list is a ring"
        out.append(cmd)
        cmd = cmd.next
    return out


def is_running(worker: LoopWorker) -> bool:
    """Say whether a kernel worker has taken the work item and not given it back."""
    slot: Any = worker.slot
    return worker.executing is not None or (slot is not None and slot.runner is not None)


class LoopAudit:
    """Looks at a world after every event, and listens to its tracepoints."""

    def __init__(self, world: LoopStorm) -> None:
        self.world = world
        self.tasks: list[Task] = []
        """All that ever had a plug."""
        self.devices = [DeviceAudit(device) for device in world.loops]
        self.queues = [world.disk, *(one.q for one in self.devices)]
        self.by_queue = {id(one.q): one for one in self.devices}

    # -- what passes

    def plug(self, task: Task) -> None:
        """P."""
        if not any(one is task for one in self.tasks):
            self.tasks.append(task)

    def rq_issue(self, rq: Request) -> None:
        """D: a pass begins."""
        one = self.by_queue.get(id(rq.q))
        if one is not None:
            one.attempts[id(rq)] = one.handed[id(rq)] = 0

    def rq_complete(self, rq: Request, nr_bytes: int) -> None:
        """C: of what was issued; the end of a member of a flush sequence comes after that of its data."""
        one = self.by_queue.get(id(rq.q))
        if one is None or (nr_bytes == 0 and rq.op != REQ_OP_FLUSH):
            return
        assert id(rq) in one.attempts, f"I1: {one.name}: the request at {rq.sector} ends and was never issued"
        if nr_bytes == rq.nr_sectors << 9:
            del one.attempts[id(rq)]

    def loop_work(self, rq: Request, reason: int) -> None:
        """W: at most once in a pass, the rest of a short write apart (L3)."""
        one = self.by_queue[id(rq.q)]
        one.serial += 1
        one.queued_as[id(rq)] = one.serial
        assert rq.state == MQ_RQ_IN_FLIGHT, f"I1: {one.name}: a request that is not started goes to a worker"
        if reason != REASON_SHORT:
            one.handed[id(rq)] += 1
            assert one.handed[id(rq)] == 1, f"L3: {one.name}: the request at {rq.sector} goes to a worker again"

    def loop_begin(self, rq: Request, task: Task, reason: int) -> None:
        """X: inline only where it may be (I14) and once in a pass (L3); in a worker, in order (I16)."""
        one = self.by_queue[id(rq.q)]
        assert rq.state == MQ_RQ_IN_FLIGHT, f"I1: {one.name}: the request at {rq.sector} is executed and not started"
        cmd = rq.pdu
        assert isinstance(cmd, LoopCommand)
        assert id(rq) in one.attempts, f"I1: {one.name}: the request at {rq.sector} is executed and was never issued"
        if reason == REASON_INLINE:
            assert task.pid != 0, f"I14: {one.name}: a file is used in an interrupt"
            assert task.fs_depth == 0, f"I14: {one.name}: a file within a file ({task.fs_depth})"
            one.check_hint(rq)
            one.attempts[id(rq)] += 1
            assert one.attempts[id(rq)] == 1, f"L3: {one.name}: the request at {rq.sector} is tried again"
            return
        if one.driver.wq is None or one.device.config.policy == "per_command":
            return
        key = key_of(cmd)
        serial = one.queued_as[id(rq)]
        assert serial > one.begun.get(key, 0), f"I16: {one.name}: the request at {rq.sector} was overtaken"
        one.begun[key] = serial

    # -- between events

    def look(self) -> None:
        """Check everything."""
        waiting = plugged(self.tasks)
        for q in self.queues:
            audit_queue(q, waiting)
        for one in self.devices:
            assert one.driver.plug.mq_list.count == 0, f"I15: {one.name}: inline I/O is left in the driver's plug"
            audit_commands(one)
            audit_counters(one)
            audit_workers(one)
            audit_idle(one, int(self.world.sim.events.now_ns))
        for task in [*self.world.tasks, *self.tasks]:
            self.audit_pending(task)

    def audit_pending(self, task: Task) -> None:
        """I19: no bio for a device below stands behind one that waits for a tag above."""
        if not task.is_blocked or task.bio_list is None:
            return
        level = self.level_of(task.bio_list.owner)
        bio = task.bio_list.next
        while bio is not None:
            lower = self.level_of(bio.owner)
            assert lower >= level, f"I19: {task.comm} waits above with a bio for below behind it"
            bio = bio.next

    def level_of(self, q: object) -> int:
        """Return how high a queue stands: 0 for the disk."""
        for level, other in enumerate(self.queues):
            if other is q:
                return level
        raise AssertionError("a bio of no queue")

    def check_end(self) -> None:
        """L2-L4, and zero counters at rest."""
        for task in self.world.tasks:
            assert not task.is_blocked, f"L2: {task.comm} waits for a tag for ever"
            assert task.is_done, f"L4: {task.comm} stands at step {task.at} of {len(task.steps)}"
            assert task.bio_list is None
        for other in self.tasks:
            assert other.plug is None, f"I15: {other.comm} keeps its plug"
        for bio in self.world.bios:
            assert bio.ends == 1, f"I1: {self.world.name_of(bio)} ended {bio.ends} times"
        for q in self.queues:
            audit_quiet(q)
        for one in self.devices:
            driver = one.driver
            assert driver.nr_blocking_writes == 0, f"I13: {one.name}: {driver.nr_blocking_writes} writes at rest"
            assert driver.nr_freeze_starts == driver.nr_freeze_ends, f"I12: {one.name}: freeze protection"
            assert driver.nr_memcg_gets == driver.nr_memcg_puts, f"I12: {one.name}: references on memory cgroups"
            for worker in one.workers():
                assert worker.head is None, f"L1: {one.name}: commands wait at rest"


def audit_commands(one: DeviceAudit) -> None:
    """I1, I2, I9, I10: each command of a started request stands where its phase says, and others nowhere."""
    listed: dict[int, str] = {}
    for worker in one.workers():
        for cmd in in_list(worker):
            assert id(cmd) not in listed, f"I15: {one.name}: a command is in two lists"
            listed[id(cmd)] = "list"
            assert cmd.phase == CMD_QUEUED, f"I2: {one.name}: a command in phase {cmd.phase} is in a worker's list"
    sleeping = {id(worker.executing) for worker in one.workers() if worker.executing is not None}
    is_per_command = one.device.config.policy == "per_command"
    finishing = {id(rq) for done in one.q.softirq_done for rq in requests_of(done.rq_list.head)}
    for cmd in one.commands():
        rq = cmd.rq
        where = f"{one.name}: the command of the request at {rq.sector}, phase {cmd.phase},"
        assert 0 <= cmd.refs <= 2, f"I1: {where} has {cmd.refs} references"
        if rq.state != MQ_RQ_IN_FLIGHT or id(rq) in finishing:
            assert cmd.phase in (CMD_DONE, CMD_NEW), f"I2: {where} goes on after its request has ended"
            assert id(cmd) not in listed, f"I2: {where} is queued after its request has ended"
            continue
        assert cmd.phase in (CMD_QUEUED, CMD_NOWAIT, CMD_BLOCKING), f"I1: {where} is with nobody"
        if cmd.phase == CMD_QUEUED:
            assert is_per_command or id(cmd) in listed, f"L1: {where} is in no list"
        elif cmd.phase == CMD_NOWAIT:
            assert cmd.refs == 1, f"I1: {where} sleeps inline"
        elif cmd.refs == 2:
            assert is_per_command or id(cmd) in sleeping, f"I1: {where} is executed by nobody"
        if cmd.phase != CMD_QUEUED:
            audit_range(one, cmd)


def requests_of(rq: Request | None) -> list[Request]:
    """List a chain of requests."""
    out: list[Request] = []
    while rq is not None:
        out.append(rq)
        rq = rq.next
    return out


def audit_range(one: DeviceAudit, cmd: LoopCommand) -> None:
    """I9, I10: an operation lies within the image, does what its request says, and changes nothing read-only."""
    rq = cmd.rq
    if rq.op == REQ_OP_FLUSH:
        assert cmd.op == FILE_FSYNC, f"I9: {one.name}: a flush executed as operation {cmd.op}"
        return
    first = int(one.driver.offset_bytes)
    last = first + (int(one.q.capacity_sectors) << 9)
    where = f"{one.name}: operation {cmd.op} at {cmd.pos}+{cmd.nbytes}"
    assert first <= cmd.pos <= last - cmd.nbytes, f"I9: {where} leaves {first}..{last}"
    begin = first + (int(rq.sector) << 9)
    end = begin + (int(rq.nr_sectors) << 9)
    assert begin <= cmd.pos == end - cmd.nbytes, f"I9: {where} serves {begin}..{end}"
    if rq.op <= FILE_WRITE:
        assert cmd.op == rq.op, f"I3: {where} serves a request of operation {rq.op}"
    assert cmd.op == FILE_READ or not one.driver.is_read_only, f"I10: {where} changes a device that is read-only"


def audit_counters(one: DeviceAudit) -> None:
    """I12, I13: what was taken and not given back is what the commands hold."""
    driver = one.driver
    queued = [
        cmd
        for cmd in one.commands()
        if cmd.rq.state == MQ_RQ_IN_FLIGHT
        and (cmd.phase == CMD_QUEUED or (cmd.phase == CMD_BLOCKING and cmd.refs == 2))
    ]
    writes = sum(cmd.use_aio and cmd.rq.op == FILE_WRITE for cmd in queued)
    assert driver.nr_blocking_writes == writes, f"I13: {one.name}: {driver.nr_blocking_writes} counted, {writes} there"
    charged = int(driver.nr_memcg_gets - driver.nr_memcg_puts)
    held = sum(cmd.is_charged for cmd in queued)
    assert charged == held, f"I12: {one.name}: {charged} references on memory cgroups, {held} commands have one"
    frozen = int(driver.nr_freeze_starts - driver.nr_freeze_ends)
    nr_frozen = [int(cmd.nr_frozen) for cmd in one.commands()]
    assert max(nr_frozen, default=0) <= 1, f"I12: {one.name}: freeze protection was taken twice"
    assert frozen == sum(nr_frozen), f"I12: {one.name}: freeze protection {frozen} times, commands {sum(nr_frozen)}"


def audit_workers(one: DeviceAudit) -> None:
    """L1, I17: a list that is not empty has its work to come; one executor for each cgroup."""
    for worker in one.workers():
        name = "root" if worker.cgroup is None else worker.cgroup.path
        has_any = worker.head is not None
        assert not has_any or worker.is_pending or is_running(worker), f"L1: {one.name}: {name}'s worker has no run"
    executors: dict[int, Task] = {}
    for cmd in one.commands():
        is_executed = cmd.rq.state == MQ_RQ_IN_FLIGHT and cmd.phase == CMD_BLOCKING and cmd.refs == 2
        if not is_executed or one.device.config.policy == "per_command":
            continue
        assert cmd.task is not None
        key = key_of(cmd)
        assert key not in executors, f"I17: {one.name}: two executors of cgroup {key}"
        executors[key] = cmd.task


def audit_idle(one: DeviceAudit, now_ns: int) -> None:
    """I20: idle workers have nothing to do, stand by age, and go after a minute of that."""
    idle_workers = one.driver.idle_workers
    found: list[LoopWorker] = []
    worker = idle_workers.head
    while worker is not None:
        is_busy = worker.head is not None or worker.executing is not None or worker.is_pending
        assert worker.is_idle > is_busy, f"I20: {one.name}: a worker with work to do is among the idle ones"
        # CPUs run ahead of each other by what they charge in one step.
        is_next = not found or found[-1].last_ran_ns <= worker.last_ran_ns + AHEAD_NS
        assert is_next, f"I20: {one.name}: not the oldest first"
        found.append(worker)
        worker = worker.idle_next
    assert len(found) == idle_workers.count
    assert not found or idle_workers.is_armed, f"I20: {one.name}: idle workers, and no timer"
    alive = one.workers()
    assert len(alive) - 1 == idle_workers.nr_made - idle_workers.nr_freed, f"I20: {one.name}: a worker is lost"
    for worker in one.idle:
        if not any(worker is other for other in alive):
            assert worker.last_ran_ns + IDLE_WORKER_NS <= now_ns, f"I20: {one.name}: a worker is freed too soon"
            assert not worker.is_pending, f"I20: {one.name}: a worker with work to do is freed"
    one.idle = found
