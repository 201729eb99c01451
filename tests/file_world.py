"""A file on a simulated device that keeps bytes, and tasks that execute operations on it."""

from __future__ import annotations

from blktwin.block.bdev import BlockDevice
from blktwin.block.elevator import Elevator
from blktwin.block.machine import Task
from blktwin.block.queue import RequestQueue
from blktwin.block.rules import Rules
from blktwin.drivers.backing import (
    EIOCBQUEUED,
    FILE_FSYNC,
    FILE_PUNCH,
    FILE_READ,
    FILE_WRITE,
    FILE_ZERO,
    IOCB_DIRECT,
    IOCB_NOWAIT,
    Backing,
    FileCall,
)
from blktwin.drivers.hardware import HardwareDriver
from blktwin.sim.costs import Costs
from blktwin.sim.devices.build import build_device
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.faults import Faults
from blktwin.sim.files.file import SimFile
from blktwin.sim.files.params import FileParams
from blktwin.sim.image import Image
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import RecordingTrace

END = 1 << 62
DISK = "/dev/nullb0,size=256m,latency=10us,write_cache=1"


class DeepTrace(RecordingTrace):
    """Notes how deep files below loop devices were entered, the most."""

    def __init__(self, costs: Costs) -> None:
        super().__init__(costs)
        self.deepest = [0]

    def file_op(self, task: Task, op: int, nbytes: int) -> None:
        """Look at the task."""
        super().file_op(task, op, nbytes)
        self.deepest[0] = max(self.deepest[0], int(task.fs_depth))


class NoteCall(FileCall):
    """A call that keeps what it is told."""

    def __init__(self, op: int, pos: int = 0, nbytes: int = 0, flags: int = 0, data: bytes | None = None) -> None:
        super().__init__()
        self.op, self.pos, self.nbytes, self.flags = op, pos, nbytes, flags
        self.data = bytearray(nbytes) if data is None else bytearray(data)
        self.returned: int | None = None
        self.completed: int | None = None
        self.lower: list[str] = []
        self.done_at_ns = -1
        self.machine: SimMachine | None = None

    def ki_complete(self, result: int) -> None:
        """Keep the result."""
        assert self.returned == -EIOCBQUEUED, "ki_complete() before advance() has returned, or twice"
        assert self.completed is None, "ki_complete() twice"
        self.completed = int(result)
        if self.machine is not None:
            self.done_at_ns = int(self.machine.now_ns())

    def lower_queued(self) -> None:
        """Note it."""
        self.lower.append("queued")

    def lower_ended(self) -> None:
        """Note it."""
        self.lower.append("ended")

    def final(self) -> int:
        """Return the result of the operation that has ended."""
        assert self.returned is not None, "it has not returned"
        if self.returned != -EIOCBQUEUED:
            assert self.completed is None
            return self.returned
        assert self.completed is not None, "it has not completed"
        return self.completed


class FileTask(Task):
    """A task that executes calls one after another, without waiting for those that are queued."""

    def __init__(self, machine: SimMachine, backing: Backing, pid: int = 1) -> None:
        super().__init__(pid, f"file{pid}", machine.cgroups.root)
        self.machine = machine
        self.backing = backing
        self.todo: list[NoteCall] = []
        self.sleeps = 0

    def run(self) -> None:
        """Go on with the first call."""
        while self.todo:
            call = self.todo[0]
            call.task = self
            call.machine = self.machine
            if not self.backing.advance(call):
                assert not call.flags & IOCB_NOWAIT, "a NOWAIT call sleeps"
                self.sleeps += 1
                return
            assert call.step == 0
            call.returned = int(call.result)
            if call.returned != -EIOCBQUEUED:
                call.done_at_ns = int(self.machine.now_ns())
            self.todo.pop(0)


class FileWorld:
    """One machine, one disk with a store, and files on it."""

    def __init__(
        self,
        params: FileParams | None = None,
        *,
        disk: str = DISK,
        cpus: int = 2,
        costs: Costs | None = None,
        elevator: Elevator | None = None,
        rules: Rules | None = None,
        faults: dict[str, int] | None = None,
    ) -> None:
        costs = costs or Costs()
        self.trace = DeepTrace(costs)
        self.machine = SimMachine(self.trace, nr_cpus=cpus, hz=250, costs=costs, faults=Faults(1, faults or {}))
        self.trace.bind(self.machine)
        self.device, self.limits, queues, depth, capacity = build_device(self.machine, parse_device(disk), 1)
        self.image = Image()
        self.device.store = self.image
        self.q = RequestQueue(
            self.machine,
            rules or Rules("test"),
            HardwareDriver(self.device),
            self.limits,
            name="disk",
            capacity_sectors=capacity,
            nr_hw_queues=queues,
            queue_depth=depth,
            elevator=elevator,
        )
        self.bdev = BlockDevice(self.q)
        self.base_bytes = 1 << 20
        self.nr_tasks = 0
        self.params = params or FileParams(size_bytes=1 << 20, keeps_bytes=True)
        self.file = self.add_file(self.params, self.base_bytes)
        self.main = self.task()

    def add_file(self, params: FileParams, base_bytes: int) -> SimFile:
        """Make a file."""
        file = SimFile(self.machine, None if params.kind == "tmpfs" else self.bdev, base_bytes, params)
        file.image = self.image
        return file

    def task(self, backing: Backing | None = None) -> FileTask:
        """Make a task."""
        self.nr_tasks += 1
        return FileTask(self.machine, backing or self.file, self.nr_tasks)

    def start(self, task: FileTask, *calls: NoteCall, cpu: int = 0, at_ns: int = 0) -> None:
        """Let a task begin with calls."""
        task.todo += calls
        self.machine.start_task(task, cpu, at_ns)

    def run(self, until_ns: int = END) -> None:
        """Run to the end, or to a time."""
        self.machine.run(until_ns, END)

    def do(self, call: NoteCall, task: FileTask | None = None) -> int:
        """Execute one call to its end; return its result."""
        self.start(task or self.main, call, at_ns=int(self.machine.events.now_ns))
        self.run()
        return call.final()

    # -- one call each

    def read(self, pos: int, nbytes: int, flags: int = IOCB_DIRECT) -> bytes:
        """Read; the bytes that came."""
        call = NoteCall(FILE_READ, pos, nbytes, flags)
        result = self.do(call)
        assert result >= 0, f"a read failed: {result}"
        assert call.data is not None
        return bytes(call.data[:result])

    def write(self, pos: int, data: bytes, flags: int = IOCB_DIRECT) -> int:
        """Write; the result."""
        return self.do(NoteCall(FILE_WRITE, pos, len(data), flags, data))

    def fsync(self) -> int:
        """Sync; the result."""
        return self.do(NoteCall(FILE_FSYNC))

    def punch(self, pos: int, nbytes: int) -> int:
        """Punch a hole; the result."""
        return self.do(NoteCall(FILE_PUNCH, pos, nbytes))

    def zero(self, pos: int, nbytes: int) -> int:
        """Zero a range; the result."""
        return self.do(NoteCall(FILE_ZERO, pos, nbytes))
