"""Loop devices on simulated files, and on each other: where bios go, what hangs, and how deep file systems nest."""

from __future__ import annotations

import pytest
from file_world import DISK, FileWorld

from blktwin.block.bdev import BlockDevice
from blktwin.block.bio import BLK_STS_OK, REQ_OP_READ, REQ_OP_WRITE, REQ_SYNC, Bio
from blktwin.block.limits import segments_of
from blktwin.block.machine import Task
from blktwin.block.plug import Plug
from blktwin.block.queue import RequestQueue
from blktwin.block.rules import Rules, preset
from blktwin.block.submit import finish_plug, resume_submission, start_plug, submit_bio
from blktwin.drivers.backing import Backing
from blktwin.drivers.loop.config import LoopConfig
from blktwin.drivers.loop.device import LoopDevice
from blktwin.drivers.loop.reasons import REASON_CTX_FORBIDDEN, REASON_EAGAIN_ASYNC
from blktwin.sim.files.params import FileParams

MIB = 1 << 20
SECOND = 1_000_000_000
INLINE = ["sync_read", "nowait_first", "rfc_safe"]


class NoteBio(Bio):
    """Notes its ends."""

    def __init__(self, op: int, sector: int, nr_sectors: int) -> None:
        super().__init__()
        self.op, self.sector, self.nr_sectors = op, sector, nr_sectors
        self.nr_segments = segments_of(nr_sectors)
        self.flags = REQ_SYNC if op == REQ_OP_WRITE else 0
        self.data = bytearray(bytes([65 + sector % 23]) * (nr_sectors << 9))
        self.ends: list[int] = []

    def end_io(self) -> None:
        """Note it."""
        self.ends.append(int(self.status))


class Submitter(Task):
    """Submits bios, all under one plug if it has one."""

    def __init__(self, stack: Stack, q: RequestQueue, bios: list[NoteBio], plugged: bool) -> None:
        super().__init__(900 + len(stack.tasks), "submitter", stack.world.machine.cgroups.root)
        self.stack = stack
        self.q = q
        self.left = list(bios)
        self.own_plug = Plug() if plugged else None

    def run(self) -> None:
        """Submit all."""
        if self.is_blocked and not resume_submission(self):
            return
        if self.own_plug is not None and self.left:
            start_plug(self, self.own_plug)
        while self.left:
            if not submit_bio(self.q, self.left.pop(0)):
                return
        if self.own_plug is not None:
            finish_plug(self.stack.world.machine, self)


class Stack:
    """A disk, files on it, and loop devices."""

    def __init__(self, rules: Rules | None = None, disk: str = DISK) -> None:
        if rules is None:
            rules = Rules("test")
            rules.submit_on_stack_plug = False
            rules.plug_is_fifo = True
        self.rules = rules
        self.world = FileWorld(FileParams(size_bytes=8 * MIB, keeps_bytes=True), rules=rules, disk=disk)
        self.tasks: list[Submitter] = []

    def loop(
        self, name: str, policy: str, backing: Backing | None = None, bugs: tuple[str, ...] = (), **options: object
    ) -> LoopDevice:
        """Make a loop device, on the world's own file unless another is given."""
        config = LoopConfig()
        config.policy, config.direct_io = policy, True
        for key, value in options.items():
            setattr(config, key, value)
        config.compat.enable(bugs)
        return LoopDevice(self.world.machine, self.rules, name, config, backing or self.world.file)

    def go(self, device: LoopDevice, bios: list[NoteBio], plugged: bool = False) -> list[list[int]]:
        """Submit, run to the end, and return the statuses of each bio."""
        task = Submitter(self, device.q, bios, plugged)
        self.tasks.append(task)
        self.world.machine.start_task(task, 0, int(self.world.machine.events.now_ns))
        self.world.run(int(self.world.machine.events.now_ns) + SECOND)
        return [bio.ends for bio in bios]

    def issues(self, dev: str) -> list[tuple[int, int]]:
        """Return sector and length of each issue to a device."""
        return [(row.sector, row.length) for row in self.world.trace.rows if row.act == "D" and row.dev == dev]


@pytest.mark.parametrize("policy", ["workqueue", "per_command", *INLINE])
@pytest.mark.parametrize("kernel", ["5.10", "6.12", "6.18", "7.2"])
@pytest.mark.parametrize("plugged", [False, True])
def test_bytes_through_a_file(policy: str, kernel: str, plugged: bool) -> None:
    """What is written through the device is read back, and it is where the file says."""
    stack = Stack(preset(kernel))
    device = stack.loop("loop0", policy, offset_bytes=8192)
    writes = [NoteBio(REQ_OP_WRITE, at * 24, 8) for at in range(40)]
    assert stack.go(device, writes, plugged) == [[BLK_STS_OK]] * 40
    reads = [NoteBio(REQ_OP_READ, at * 24, 8) for at in range(40)]
    for bio in reads:
        bio.data = bytearray(4096)
    assert stack.go(device, reads, plugged) == [[BLK_STS_OK]] * 40
    assert [bio.data for bio in reads] == [bio.data for bio in writes]
    assert stack.world.file.dio_in_flight == 0
    assert device.in_flight() == 0


def test_lower_bios_last_is_a_deadlock() -> None:
    """A bio of more parts than tags: the bios that would end them wait behind it; ours go first."""
    for bugs, ends in (((), [BLK_STS_OK]), (("lower_bios_last",), [])):
        stack = Stack()
        device = stack.loop("loop0", "nowait_first", bugs=bugs, queue_depth=4)
        device.limits.max_sectors = 8
        bio = NoteBio(REQ_OP_READ, 0, 64)
        assert stack.go(device, [bio]) == [ends]
        assert stack.tasks[0].is_blocked is (not ends)


def test_a_shared_plug_loses_requests() -> None:
    """Inline I/O that adds to the plug under way leaves its requests there: nobody issues them."""
    for bugs, ends in (((), [[BLK_STS_OK]] * 4), (("plug_shared",), [[]] * 4)):
        stack = Stack()
        device = stack.loop("loop0", "nowait_first", bugs=bugs)
        assert stack.go(device, [NoteBio(REQ_OP_READ, at * 16, 8) for at in range(4)], True) == ends


@pytest.mark.parametrize("policy", ["nowait_first", "sync_read", "rfc_safe"])
def test_a_batch_merges_below(policy: str) -> None:
    """Reads that follow one another, each a request of its own above, are one below if they share a plug there."""
    for batch, issues in ((False, 4), (True, 1)):
        stack = Stack()
        device = stack.loop("loop0", policy, batch_plug=batch)
        device.q.nomerges = 2
        assert stack.go(device, [NoteBio(REQ_OP_READ, at * 8, 8) for at in range(4)], True) == [[BLK_STS_OK]] * 4
        assert len(stack.issues("loop0")) == 4
        assert len(stack.issues("disk")) == issues
        assert device.driver.nr_inline == 4


def nested(policy: str, bugs: tuple[str, ...] = ()) -> tuple[Stack, LoopDevice, LoopDevice]:
    """Build a loop device on a file on a loop device."""
    stack = Stack()
    lower = stack.loop("loop0", policy, bugs=bugs)
    file = stack.world.add_file(FileParams(size_bytes=MIB), 0)
    file.bdev = BlockDevice(lower.q)
    return stack, lower, stack.loop("loop1", policy, file, bugs)


@pytest.mark.parametrize("policy", ["workqueue", "per_command", *INLINE])
@pytest.mark.parametrize("plugged", [False, True])
def test_nested_devices(policy: str, plugged: bool) -> None:
    """All I/O ends, and no file system is entered from the code of another."""
    stack, lower, upper = nested(policy)
    deepest = watch_depth(stack)
    bios = [NoteBio(op, at * 16 + op * 512, 8) for at in range(20) for op in (REQ_OP_READ, REQ_OP_WRITE)]
    assert stack.go(upper, bios, plugged) == [[BLK_STS_OK]] * 40
    assert deepest == [1]
    assert (lower.in_flight(), upper.in_flight()) == (0, 0)


def test_nested_plugs_of_inline_reads() -> None:
    """From a plug's flush nothing queues the lower bios: there the lower device gives them to a worker."""
    stack, lower, upper = nested("nowait_first")
    assert stack.go(upper, [NoteBio(REQ_OP_READ, at * 16, 8) for at in range(3)], True) == [[BLK_STS_OK]] * 3
    assert upper.driver.nr_inline == 3
    assert lower.driver.nr_queued[REASON_CTX_FORBIDDEN] == 3
    stack, lower, upper = nested("nowait_first", ("inline_nests",))
    deepest = watch_depth(stack)
    assert stack.go(upper, [NoteBio(REQ_OP_READ, at * 16, 8) for at in range(3)], True) == [[BLK_STS_OK]] * 3
    assert lower.driver.nr_inline == 3
    assert deepest == [2]


def test_no_room_below_comes_later() -> None:
    """NOWAIT bios that find no tag of the device below fall back to workers, who wait for one; all end."""
    stack = Stack(disk=DISK + ",depth=2")
    device = stack.loop("loop0", "nowait_first")
    assert stack.go(device, [NoteBio(REQ_OP_READ, at * 16, 8) for at in range(20)]) == [[BLK_STS_OK]] * 20
    assert device.driver.nr_queued[REASON_EAGAIN_ASYNC] > 10
    assert stack.world.file.nr_eagain_lower > 10
    assert device.in_flight() == 0


def watch_depth(stack: Stack) -> list[int]:
    """Return a list of one number: how deep files were entered, the most."""
    return stack.world.trace.deepest
