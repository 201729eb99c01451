"""A small world for the tests of the loop driver: one loop device on a file in memory whose I/O takes a fixed time."""

from __future__ import annotations

from closed_loop import END

from blktwin.block.bio import (
    REQ_OP_DISCARD,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
    REQ_PREFLUSH,
    REQ_SYNC,
    Bio,
)
from blktwin.block.cgroup import Cgroup
from blktwin.block.elevator import Elevator
from blktwin.block.limits import segments_of_op
from blktwin.block.machine import Task
from blktwin.block.plug import Plug
from blktwin.block.request import Request
from blktwin.block.rules import Rules
from blktwin.block.submit import finish_plug, resume_submission, start_plug, submit_bio
from blktwin.drivers.backing import (
    EAGAIN,
    EIOCBQUEUED,
    FILE_FSYNC,
    FILE_READ,
    FILE_WRITE,
    IOCB_DIRECT,
    IOCB_NOWAIT,
    Backing,
    FileCall,
)
from blktwin.drivers.loop.command import LoopCommand
from blktwin.drivers.loop.config import LoopConfig
from blktwin.drivers.loop.device import LoopDevice
from blktwin.drivers.loop.reasons import REASON_NAMES
from blktwin.sim.costs import Costs
from blktwin.sim.events import Event
from blktwin.sim.faults import Faults
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import RecordingTrace

US = 1000
MIB = 1 << 20


class LoopTrace(RecordingTrace):
    """Records the loop driver's steps too: `steps` has (letter, sector, extra) in order."""

    def __init__(self, costs: Costs) -> None:
        super().__init__(costs)
        self.steps: list[tuple[str, int, str]] = []

    def loop_dispatch(self, rq: Request) -> None:
        """Record the arrival."""
        super().loop_dispatch(rq)
        self.steps.append(("L", int(rq.sector), ""))

    def loop_work(self, rq: Request, reason: int) -> None:
        """W."""
        super().loop_work(rq, reason)
        self.steps.append(("W", int(rq.sector), REASON_NAMES[reason]))

    def loop_begin(self, rq: Request, task: Task, reason: int) -> None:
        """X."""
        super().loop_begin(rq, task, reason)
        self.steps.append(("X", int(rq.sector), task.comm))

    def loop_lower_queue(self, rq: Request) -> None:
        """Q'."""
        self.steps.append(("Q'", int(rq.sector), ""))

    def loop_lower_done(self, rq: Request) -> None:
        """C'."""
        self.steps.append(("C'", int(rq.sector), ""))

    def loop_end(self, rq: Request, result: int) -> None:
        """Record the end of the file operation."""
        self.steps.append(("E", int(rq.sector), str(int(result))))

    def letters(self) -> str:
        """Return the letters of the loop driver's steps."""
        return " ".join(step[0] for step in self.steps)

    def of(self, letter: str) -> list[str]:
        """Return what else was recorded with a letter."""
        return [step[2] for step in self.steps if step[0] == letter]


class Answer(Event):
    """The end of one operation, or of a sleep in it."""

    def __init__(self, backing: FakeBacking, call: FileCall, result: int, wakes: Task | None) -> None:
        super().__init__()
        self.backing = backing
        self.call = call
        self.result_value = result
        self.wakes = wakes

    def fire(self) -> None:
        """Wake who sleeps, or complete."""
        machine = self.backing.machine
        machine.enter_irq(0, 0)
        if self.wakes is not None:
            machine.wake_task(self.wakes)
        else:
            self.backing.in_flight -= 1
            self.call.lower_ended()
            self.call.ki_complete(self.result_value)
        machine.leave_irq()


class FakeBacking(Backing):
    """Bytes in memory. Direct I/O ends `io_ns` after it began; buffered I/O and all else sleeps so long.

    answers: (operation, flag that must be set, result) that come once each, before anything happens; a result that is
    below 0 is an error, one above a short transfer, EIOCBQUEUED + errno an error that comes later.
    """

    def __init__(self, machine: SimMachine, size_bytes: int = MIB, io_ns: int = 50 * US) -> None:
        super().__init__()
        self.machine = machine
        self.name = "fake.img"
        self.kind = "fake"
        self.bytes = bytearray(size_bytes)
        self.io_ns = io_ns
        self.answers: list[tuple[int, int, int]] = []
        self.nowait_fails: set[int] = set()
        """Operations that never go without sleeping."""
        self.in_flight = 0
        self.seen: list[tuple[int, int, int, bool, str]] = []
        """(operation, position, bytes, NOWAIT, who) of each attempt, in order."""
        self.lower_name = ""
        self.sleeps_direct = False
        """Direct I/O sleeps too, unless it is told not to."""
        self.lower_depths: list[bool] = []
        """For each direct I/O: was there a plug for the device below?"""
        self.end_limit = 1 << 62
        """Writes stop here: the file system is full."""

    def size_bytes(self) -> int:
        """Return the size."""
        return len(self.bytes)

    def lower_queue_name(self) -> str:
        """Return the device below."""
        return self.lower_name

    def advance(self, call: FileCall) -> bool:
        """Go on with a call."""
        task = call.task
        assert task is not None
        assert self.machine.current is task
        if call.step == 1:
            call.result = self.transfer(call, int(call.nbytes))
            return True
        self.seen.append((int(call.op), int(call.pos), int(call.nbytes), bool(call.flags & IOCB_NOWAIT), task.comm))
        self.machine.trace.file_op(task, call.op, call.nbytes)
        for answer in self.answers:
            if answer[0] == call.op and (not answer[1] or call.flags & answer[1]):
                self.answers.remove(answer)
                return self.scripted(call, answer[2])
        is_nowait = call.flags & IOCB_NOWAIT
        if is_nowait and int(call.op) in self.nowait_fails:
            call.result = -EAGAIN
            return True
        if call.flags & IOCB_DIRECT and call.op <= FILE_WRITE and (is_nowait or not self.sleeps_direct):
            self.lower_depths.append(task.plug is not None)
            self.later(call, self.transfer(call, int(call.nbytes)))
            return True
        assert not is_nowait
        call.step = 1
        self.machine.events.at(Answer(self, call, 0, task), self.machine.local_ns + self.io_ns)
        return False

    def later(self, call: FileCall, result: int) -> None:
        """Let the result come by itself."""
        self.in_flight += 1
        call.lower_queued()
        call.result = -EIOCBQUEUED
        self.machine.events.at(Answer(self, call, result, None), self.machine.local_ns + self.io_ns)

    def scripted(self, call: FileCall, result: int) -> bool:
        """Give an answer of the list."""
        if EIOCBQUEUED <= result < EIOCBQUEUED + 200:
            self.later(call, EIOCBQUEUED - result)
        elif result < 0:
            call.result = result
        else:
            call.result = self.transfer(call, result)
        return True

    def transfer(self, call: FileCall, nbytes: int) -> int:
        """Move bytes; return how many."""
        pos, data = int(call.pos), call.data
        if call.op == FILE_READ:
            nbytes = max(0, min(nbytes, len(self.bytes) - pos))
            if data is not None:
                data[:nbytes] = self.bytes[pos : pos + nbytes]
            return nbytes
        if call.op == FILE_WRITE:
            nbytes = max(0, min(nbytes, self.end_limit - pos))
            if pos + nbytes > len(self.bytes):
                self.bytes.extend(bytes(pos + nbytes - len(self.bytes)))
            self.bytes[pos : pos + nbytes] = bytes(nbytes) if data is None else data[:nbytes]
            return nbytes
        if call.op != FILE_FSYNC:
            end = min(pos + int(call.nbytes), len(self.bytes))
            self.bytes[pos:end] = bytes(max(0, end - pos))
        return 0


class DataBio(Bio):
    """A bio with bytes whose end is known: `ends` has its statuses."""

    def __init__(self, world: LoopWorld) -> None:
        super().__init__()
        self.world = world
        self.target = world.q
        self.ends: list[int] = []
        self.end_ns = 0

    def end_io(self) -> None:
        """Note the end."""
        self.ends.append(int(self.status))
        self.end_ns = int(self.world.machine.now_ns())


class Script(Task):
    """A task that submits bios one by one, some under one plug, and sleeps for tags only."""

    def __init__(self, world: LoopWorld, bios: list[DataBio], cgroup: Cgroup, plugged: bool) -> None:
        super().__init__(1 + len(world.tasks), f"script{len(world.tasks)}", cgroup)
        self.world = world
        self.left = bios
        self.plugged = plugged
        self.own_plug = Plug()

    def run(self) -> None:
        """Submit all."""
        if self.is_blocked and not resume_submission(self):
            return
        if self.plugged and self.left:
            start_plug(self, self.own_plug)
        while self.left:
            bio = self.left.pop(0)
            if not submit_bio(bio.target, bio):
                return
        if self.plugged:
            finish_plug(self.world.machine, self)


class LoopWorld:
    """A machine with a loop device; everything is free of charge unless costs are given."""

    def __init__(
        self,
        policy: str = "workqueue",
        *,
        direct: bool = True,
        cpus: int = 2,
        costs: Costs | None = None,
        config: LoopConfig | None = None,
        rules: Rules | None = None,
        elevator: Elevator | None = None,
        bugs: tuple[str, ...] = (),
        size_bytes: int = MIB,
    ) -> None:
        costs = costs or Costs()
        self.trace = LoopTrace(costs)
        self.machine = SimMachine(self.trace, nr_cpus=cpus, hz=250, costs=costs, faults=Faults(1, {}))
        self.trace.bind(self.machine)
        self.backing = FakeBacking(self.machine, size_bytes)
        if rules is None:
            rules = Rules("test")
            rules.submit_on_stack_plug = False
            rules.plug_is_fifo = True
        if config is None:
            config = LoopConfig()
        config.policy = policy
        config.direct_io = direct
        config.compat.enable(bugs)
        self.device = LoopDevice(self.machine, rules, "loop0", config, self.backing, elevator)
        self.q = self.device.q
        self.driver = self.device.driver
        self.tasks: list[Task] = []
        self.bios: list[DataBio] = []

    def bio(self, op: int, sector: int, nr_sectors: int = 8, data: bytes | None = None, flags: int = 0) -> DataBio:
        """Make a bio; a read without data gets room for it."""
        bio = DataBio(self)
        bio.op, bio.sector, bio.nr_sectors, bio.flags = op, sector, nr_sectors, flags
        bio.nr_segments = segments_of_op(op, nr_sectors)
        if op == REQ_OP_READ:
            bio.data = bytearray(b"?" * (nr_sectors << 9))
        elif op == REQ_OP_WRITE and nr_sectors:
            bio.data = bytearray(data if data is not None else bytes([65 + sector // 8 % 26]) * (nr_sectors << 9))
            bio.flags |= REQ_SYNC
        self.bios.append(bio)
        return bio

    def read(self, sector: int, nr_sectors: int = 8) -> DataBio:
        """Make a read."""
        return self.bio(REQ_OP_READ, sector, nr_sectors)

    def write(self, sector: int, nr_sectors: int = 8, data: bytes | None = None, flags: int = 0) -> DataBio:
        """Make a write."""
        return self.bio(REQ_OP_WRITE, sector, nr_sectors, data, flags)

    def flush(self) -> DataBio:
        """Make an empty flush."""
        return self.bio(REQ_OP_WRITE, 0, 0, None, REQ_PREFLUSH | REQ_SYNC)

    def discard(self, sector: int, nr_sectors: int = 8) -> DataBio:
        """Make a discard."""
        return self.bio(REQ_OP_DISCARD, sector, nr_sectors)

    def zeroes(self, sector: int, nr_sectors: int = 8, flags: int = 0) -> DataBio:
        """Make a write-zeroes."""
        return self.bio(REQ_OP_WRITE_ZEROES, sector, nr_sectors, None, flags)

    def submit(self, *bios: DataBio, cgroup: str = "/", plugged: bool = False, cpu: int = 0) -> Script:
        """Let a new task submit bios, now."""
        task = Script(self, list(bios), self.machine.cgroups.get(cgroup), plugged)
        self.tasks.append(task)
        self.machine.start_task(task, cpu, int(self.machine.events.now_ns))
        return task

    def submit_as(self, task: Script, bio: DataBio) -> None:
        """Submit a bio as a task that only the test moves."""
        self.machine.current = task
        submit_bio(bio.target, bio)

    def finish_plug_of(self, task: Script) -> None:
        """Let such a task end its plug."""
        self.machine.current = task
        finish_plug(self.machine, task)

    def other_device(self) -> LoopDevice:
        """Make a second device on the same file, with workers."""
        config = LoopConfig()
        config.direct_io = True
        return LoopDevice(self.machine, self.q.rules, "loop1", config, self.backing)

    def command(self) -> LoopCommand:
        """Return the only command that there is."""
        found = [rq.pdu for hctx in self.q.hctxs for rq in hctx.requests if isinstance(rq.pdu, LoopCommand)]
        assert len(found) == 1
        return found[0]

    def run(self, until_ns: int = END) -> None:
        """Run to the end, or to a time."""
        self.machine.run(until_ns, END)

    def go(self, *bios: DataBio, cgroup: str = "/", plugged: bool = False) -> list[int]:
        """Submit, run a second, and return the statuses; every bio has ended once."""
        self.submit(*bios, cgroup=cgroup, plugged=plugged)
        self.run(int(self.machine.events.now_ns) + 1_000_000_000)
        for bio in bios:
            assert len(bio.ends) == 1, f"the bio at {bio.sector} ended {len(bio.ends)} times"
        return [bio.ends[0] for bio in bios]

    def check_quiet(self) -> None:
        """Everything has ended, every reference and count is back."""
        for bio in self.bios:
            assert len(bio.ends) == 1, f"the bio at {bio.sector} ended {len(bio.ends)} times"
        driver = self.driver
        assert self.device.in_flight() == 0
        assert self.q.nr_started == self.q.nr_completed
        assert driver.nr_blocking_writes == 0
        assert driver.nr_freeze_starts == driver.nr_freeze_ends
        assert driver.nr_memcg_gets == driver.nr_memcg_puts
        assert self.backing.in_flight == 0
        assert driver.plug.mq_list.count == 0
        for hctx in self.q.hctxs:
            for rq in hctx.requests:
                pdu = rq.pdu
                assert pdu is None or (isinstance(pdu, LoopCommand) and pdu.nr_frozen == 0)
