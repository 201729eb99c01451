"""A block device as backing file: NOWAIT, the end, fsync, punch and zero range."""

from __future__ import annotations

import pytest
from file_world import FileWorld, NoteCall
from hypothesis import given, settings
from hypothesis import strategies as st

from blktwin.drivers.backing import (
    EAGAIN,
    EINVAL,
    EIOCBQUEUED,
    ENOSPC,
    EOPNOTSUPP,
    FILE_FSYNC,
    FILE_PUNCH,
    FILE_READ,
    FILE_WRITE,
    FILE_ZERO,
    IOCB_DIRECT,
    IOCB_NOWAIT,
)
from blktwin.sim.files.bdev_file import BdevFile

K4 = 4096
MIB = 1 << 20
NOWAIT = IOCB_DIRECT | IOCB_NOWAIT
END = 256 * MIB


class BdevWorld(FileWorld):
    """The whole disk as a file."""

    def __init__(self, more: str = "") -> None:
        super().__init__(disk="/dev/nullb0,size=256m,latency=10us,write_cache=1" + more)
        self.bdev_file = BdevFile(self.machine, self.bdev, keeps_bytes=True)
        self.bdev_file.image = self.image
        self.main.backing = self.bdev_file

    def ops(self) -> list[tuple[str, int, int]]:
        """Return (rwbs, sector, sectors) of what was issued, and forget it."""
        rows = [(row.rwbs, row.sector, row.length) for row in self.trace.rows if row.act == "D"]
        self.trace.rows.clear()
        return rows


def test_what_it_is() -> None:
    """It says what a device can."""
    world = BdevWorld()
    file = world.bdev_file
    assert (file.kind, file.is_block_device, file.can_nowait, file.size_bytes()) == ("bdev", True, True, END)
    assert (file.block_bytes, file.dio_align_bytes, file.name) == (512, 512, "/dev/disk")
    assert file.max_zeroes_sectors == world.limits.max_write_zeroes_sectors
    assert file.lower_queue_name() == "disk"


def test_direct() -> None:
    """A write and a read go straight through."""
    world = BdevWorld()
    call = NoteCall(FILE_WRITE, K4, K4, NOWAIT, b"q" * K4)
    assert world.do(call) == K4
    assert call.returned == -EIOCBQUEUED
    assert world.ops() == [("WS", 8, 8)]
    assert world.read(0, 3 * K4) == bytes(K4) + b"q" * K4 + bytes(K4)


def test_nowait_is_one_bio() -> None:
    """A NOWAIT I/O that takes more than one bio is refused, and one that must be split ends so below."""
    world = BdevWorld()
    assert world.do(NoteCall(FILE_READ, 0, 2 * MIB, NOWAIT)) == -EAGAIN
    assert world.ops() == []
    assert world.do(NoteCall(FILE_READ, 0, MIB, NOWAIT)) == -EAGAIN
    assert world.bdev_file.nr_eagain_lower == 1
    assert world.do(NoteCall(FILE_READ, 0, MIB // 2, NOWAIT)) == MIB // 2
    assert world.do(NoteCall(FILE_READ, 0, 2 * MIB, IOCB_DIRECT)) == 2 * MIB


def test_end_of_the_device() -> None:
    """Nothing is behind the end."""
    world = BdevWorld()
    assert len(world.read(END - K4, 2 * K4)) == K4
    assert world.read(END, K4) == b""
    assert world.write(END - K4, b"e" * 2 * K4) == K4
    assert world.write(END, b"e" * K4) == -ENOSPC


def test_fsync() -> None:
    """It flushes, and first writes what is dirty; there is no journal."""
    world = BdevWorld()
    calls = [NoteCall(FILE_WRITE, 0, 2 * K4, 0, b"w" * 2 * K4), NoteCall(FILE_FSYNC)]
    world.start(world.main, *calls)
    world.run()
    assert [call.final() for call in calls] == [2 * K4, 0]
    assert world.ops() == [("WS", 0, 16), ("FF", 0, 0)]
    assert not world.image.cached


@pytest.mark.parametrize("op", [FILE_PUNCH, FILE_ZERO])
def test_zeroing(op: int) -> None:
    """Both are write-zeroes, and cached pages go."""
    world = BdevWorld()
    world.write(0, b"z" * 4 * K4)
    world.read(0, 4 * K4, 0)
    world.ops()
    call = NoteCall(op, K4, 2 * K4)
    assert world.do(call) == 0
    assert call.lower == ["queued", "ended"]
    assert world.ops() == [("N", 8, 16)]
    assert world.read(0, 4 * K4, 0) == b"z" * K4 + bytes(2 * K4) + b"z" * K4
    assert world.do(NoteCall(op, 100, K4)) == -EINVAL
    assert world.do(NoteCall(op, END, K4)) == -EINVAL


def test_zeroing_without_write_zeroes() -> None:
    """A punch is refused, and a zero range writes zeros."""
    world = BdevWorld()
    world.limits.max_write_zeroes_sectors = 0
    world.write(0, b"z" * 3 * MIB)
    world.ops()
    assert world.punch(0, K4) == -EOPNOTSUPP
    assert world.zero(0, 5 * MIB // 2) == 0
    assert sum(length for _, _, length in world.ops()) == 5 * MIB // 2 >> 9
    assert world.read(0, 3 * MIB) == bytes(5 * MIB // 2) + b"z" * (MIB // 2)


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["write", "buffered", "read", "cached", "punch", "zero", "fsync"]),
        st.integers(0, 63),
        st.integers(1, 40),
    ),
    max_size=20,
)


@settings(deadline=None)
@given(ACTS)
def test_content(acts: list[tuple[str, int, int]]) -> None:
    """A reader finds what was written last."""
    world = BdevWorld()
    model = bytearray(128 * 512)
    for number, (act, sector, count) in enumerate(acts, 1):
        pos, nbytes = sector * 512, count * 512
        if act in ("write", "buffered"):
            model[pos : pos + nbytes] = bytes([number]) * nbytes
            assert world.write(pos, bytes([number]) * nbytes, IOCB_DIRECT if act == "write" else 0) == nbytes
        elif act in ("punch", "zero"):
            model[pos : pos + nbytes] = bytes(nbytes)
            assert (world.punch if act == "punch" else world.zero)(pos, nbytes) == 0
        elif act == "fsync":
            assert world.fsync() == 0
        else:
            assert world.read(pos, nbytes, IOCB_DIRECT if act == "read" else 0) == model[pos : pos + nbytes]
    assert world.read(0, 128 * 512) == bytes(model)
