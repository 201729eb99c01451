"""Direct I/O on a file: plain, sparse, extending, NOWAIT."""

from __future__ import annotations

import pytest
from file_world import FileWorld, NoteCall

from blktwin.drivers.backing import (
    EAGAIN,
    EINVAL,
    EIOCBQUEUED,
    EOPNOTSUPP,
    FILE_READ,
    FILE_WRITE,
    IOCB_DIRECT,
    IOCB_NOWAIT,
)
from blktwin.sim.files.params import FileParams

K4 = 4096
NOWAIT = IOCB_DIRECT | IOCB_NOWAIT
SIZE = 1 << 20


def bytes_of(nbytes: int, start: int = 1) -> bytes:
    """Return bytes that say where they are."""
    return bytes((start + at // 512 + at) % 251 for at in range(nbytes))


def sparse(kind: str = "ext4", **more: object) -> FileParams:
    """Return a sparse file's parameters."""
    params = FileParams(kind, SIZE, is_sparse=True, keeps_bytes=True)
    for name, value in more.items():
        setattr(params, name, value)
    return params


def test_plain_write_and_read() -> None:
    """A mapped block costs one bio at its own place, and nothing else."""
    world = FileWorld()
    data = bytes_of(K4)
    call = NoteCall(FILE_WRITE, 8 * K4, K4, IOCB_DIRECT, data)
    assert world.do(call) == K4
    assert call.returned == -EIOCBQUEUED
    assert call.lower == ["queued", "ended"]
    assert [(row.act, row.sector, row.length) for row in world.trace.rows if row.act in "QDC"] == [
        (act, (world.base_bytes + 8 * K4) >> 9, 8) for act in "QDC"
    ]
    assert world.read(8 * K4, K4) == data
    assert world.read(7 * K4, 3 * K4) == bytes(K4) + data + bytes(K4)
    assert world.file.nr_allocs == 0


def test_call_objects_are_reused() -> None:
    """The state made for a call serves its next operation."""
    world = FileWorld()
    call = NoteCall(FILE_WRITE, 0, K4, IOCB_DIRECT, bytes_of(K4))
    world.do(call)
    state = call.state
    call.returned = call.completed = None
    call.op = FILE_READ
    call.data = bytearray(K4)
    assert world.do(call) == K4
    assert call.state is state
    assert bytes(call.data) == bytes_of(K4)


def test_hole_reads_zeros_without_io() -> None:
    """Holes need no device."""
    world = FileWorld(sparse())
    call = NoteCall(FILE_READ, 0, 64 * K4, NOWAIT, b"x" * 64 * K4)
    assert world.do(call) == 64 * K4
    assert call.returned == 64 * K4
    assert call.data is not None
    assert bytes(call.data) == bytes(64 * K4)
    assert call.lower == []
    assert world.trace.rows == []


def test_a_write_fills_a_hole_by_way_of_a_worker() -> None:
    """A hole is allocated, and what was unwritten is converted in a kernel worker after the I/O."""
    world = FileWorld(sparse())
    call = NoteCall(FILE_WRITE, K4, 2 * K4, IOCB_DIRECT, bytes_of(2 * K4))
    assert world.do(call) == 2 * K4
    assert world.file.nr_allocs == 1
    assert world.read(0, 4 * K4) == bytes(K4) + bytes_of(2 * K4) + bytes(K4)
    call = NoteCall(FILE_WRITE, K4, 2 * K4, NOWAIT, bytes_of(2 * K4, 7))
    assert world.do(call) == 2 * K4
    assert world.file.nr_allocs == 1


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "f2fs"])
def test_nowait_write_into_a_hole(kind: str) -> None:
    """A NOWAIT write never allocates."""
    world = FileWorld(sparse(kind))
    expected = EOPNOTSUPP if kind == "f2fs" else EAGAIN
    call = NoteCall(FILE_WRITE, 0, K4, NOWAIT, bytes_of(K4))
    assert world.do(call) == -expected
    assert call.returned == -expected
    assert world.trace.rows == []
    assert world.file.nr_eagain_hole == 1


def test_short_read_at_the_end() -> None:
    """A read ends at the end of the file, and behind it there is nothing."""
    params = FileParams("ext4", SIZE - 1024, keeps_bytes=True)
    world = FileWorld(params)
    assert len(world.read(SIZE - K4, K4)) == K4 - 1024
    assert world.read(SIZE, K4) == b""


def test_misaligned() -> None:
    """Direct I/O in parts of a sector is refused."""
    world = FileWorld()
    assert world.write(100, bytes(512)) == -EINVAL
    assert world.write(512, bytes(100)) == -EINVAL


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_extending_write(kind: str) -> None:
    """A write behind the end makes the file longer; on ext4 it returns when it is done."""
    params = FileParams(kind, SIZE, keeps_bytes=True)
    params.grow_bytes = SIZE
    world = FileWorld(params)
    call = NoteCall(FILE_WRITE, SIZE + 8 * K4, K4, IOCB_DIRECT, bytes_of(K4))
    assert world.do(NoteCall(FILE_WRITE, SIZE, K4, NOWAIT, bytes(K4))) == -EAGAIN
    assert world.do(call) == K4
    assert (call.returned == K4) == (kind == "ext4")
    assert world.file.size_bytes() == SIZE + 9 * K4
    assert world.read(SIZE, 9 * K4) == bytes(8 * K4) + bytes_of(K4)


def test_part_of_an_unwritten_block() -> None:
    """A write of one sector into a hole makes the rest of its block zero, whatever lay there."""
    world = FileWorld(sparse())
    world.image.write(world.base_bytes >> 9, b"old!" * 2048)
    assert world.write(512, bytes_of(512)) == 512
    assert world.read(0, 2 * K4) == bytes(512) + bytes_of(512) + bytes(2 * K4 - 1024)


def test_long_transfers_are_several_bios() -> None:
    """A bio holds 1 MiB; the parts are plugged, and the call ends once."""
    params = FileParams("ext4", 4 << 20, keeps_bytes=True)
    world = FileWorld(params)
    data = bytes_of(5 << 19)
    call = NoteCall(FILE_WRITE, 0, len(data), IOCB_DIRECT, data)
    assert world.do(call) == len(data)
    assert call.lower == ["queued", "ended"]
    assert [row.length for row in world.trace.rows if row.act == "Q"] == [2048, 2048, 1024]
    assert world.read(0, len(data)) == data


def test_nowait_of_what_the_device_must_split() -> None:
    """A bio that the queue must split ends in -EAGAIN below, before the call has returned."""
    world = FileWorld(FileParams("ext4", 4 << 20), disk="/dev/nullb0,size=256m,latency=10us,max_sectors_kb=64")
    call = NoteCall(FILE_READ, 0, 1 << 17, NOWAIT)
    assert world.do(call) == -EAGAIN
    assert call.lower == ["queued", "ended"]
    assert world.file.nr_eagain_lower == 1


def test_tags_run_out() -> None:
    """Without NOWAIT the task sleeps for a tag and goes on; with it the I/O ends in -EAGAIN."""
    world = FileWorld(disk="/dev/nullb0,size=256m,latency=10us,depth=1")
    calls = [NoteCall(FILE_WRITE, at * K4, K4, IOCB_DIRECT, bytes_of(K4, at)) for at in range(4)]
    world.start(world.main, *calls)
    world.run()
    assert [call.final() for call in calls] == [K4] * 4
    assert world.main.sleeps >= 3
    assert world.read(0, 4 * K4) == b"".join(bytes_of(K4, at) for at in range(4))
    calls = [NoteCall(FILE_READ, at * K4, K4, NOWAIT) for at in range(2)]
    world.start(world.main, *calls, at_ns=int(world.machine.events.now_ns))
    world.run()
    assert [call.final() for call in calls] == [K4, -EAGAIN]
