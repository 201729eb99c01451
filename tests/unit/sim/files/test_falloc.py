"""Punching and zeroing: whole blocks, parts of them, space that comes and goes."""

from __future__ import annotations

import pytest
from file_world import FileWorld

from blktwin.drivers.backing import EINVAL, ENOSPC, EOPNOTSUPP, IOCB_DIRECT
from blktwin.sim.files.extents import HOLE, MAPPED, UNWRITTEN
from blktwin.sim.files.params import FileParams

K4 = 4096
MIB = 1 << 20


def filled(kind: str = "ext4", **more: object) -> FileWorld:
    """Build a file of 1 MiB whose bytes are all 'a'."""
    params = FileParams(kind, MIB, keeps_bytes=True)
    for name, value in more.items():
        setattr(params, name, value)
    world = FileWorld(params)
    if kind == "tmpfs":
        assert world.write(0, b"a" * MIB, 0) == MIB
    else:
        world.image.write(world.base_bytes >> 9, b"a" * MIB)
    return world


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "f2fs", "overlayfs", "tmpfs"])
def test_punch(kind: str) -> None:
    """The range reads zero, its whole blocks are holes, and the size stays."""
    world = filled(kind)
    assert world.punch(K4 - 512, 2 * K4 + 1024) == 0
    zeros = 2 * K4 + 1024
    assert world.read(0, 4 * K4) == b"a" * (K4 - 512) + bytes(zeros) + b"a" * (4 * K4 - zeros - K4 + 512)
    assert world.file.size_bytes() == MIB
    if kind != "tmpfs":
        assert [world.file.extents.state(block) for block in range(4)] == [MAPPED, HOLE, HOLE, MAPPED]


def test_zero_range_keeps_the_blocks() -> None:
    """Zeroed blocks stay allocated, and holes become so."""
    world = filled("ext4")
    assert world.punch(K4, K4) == 0
    assert world.zero(0, 3 * K4) == 0
    assert [world.file.extents.state(block) for block in range(4)] == [UNWRITTEN] * 3 + [MAPPED]
    assert world.read(0, 4 * K4) == bytes(3 * K4) + b"a" * K4
    assert world.write(0, b"b" * K4) == K4
    assert world.file.nr_allocs == 0


def test_space() -> None:
    """A punch gives space back; a zero range takes it for holes."""
    world = filled("ext4", free_bytes=K4)
    assert world.punch(0, 8 * K4) == 0
    assert world.file.free_bytes == 9 * K4
    assert world.zero(0, 4 * K4) == 0
    assert world.file.free_bytes == 5 * K4
    assert world.zero(0, 16 * K4) == 0
    assert world.file.free_bytes == K4
    assert world.punch(16 * K4, 8 * K4) == 0
    assert world.write(16 * K4, b"x" * 8 * K4) == 8 * K4
    world.file.free_bytes = 0
    world.file.extents.set(30, HOLE)
    assert world.zero(28 * K4, 4 * K4) == -ENOSPC


def test_dirty_pages_do_not_come_back() -> None:
    """What was dirty in the range is gone after the punch, also after a sync."""
    world = filled("ext4")
    assert world.write(0, b"d" * 4 * K4, 0) == 4 * K4
    assert world.punch(K4, 2 * K4) == 0
    assert world.fsync() == 0
    assert world.read(0, 4 * K4, 0) == b"d" * K4 + bytes(2 * K4) + b"d" * K4
    assert world.read(0, 4 * K4, IOCB_DIRECT) == b"d" * K4 + bytes(2 * K4) + b"d" * K4


def test_refused() -> None:
    """What fallocate() does not take."""
    world = filled("ext4")
    assert world.punch(0, 0) == -EINVAL
    assert world.punch(-K4, K4) == -EINVAL
    assert world.zero(MIB, K4) == -ENOSPC
    assert world.punch(2 * MIB, K4) == 0
    assert filled("tmpfs").zero(0, K4) == -EOPNOTSUPP


def test_truncate() -> None:
    """What is cut off is gone, and zeros when the file grows again; its space comes back."""
    world = filled("xfs", free_bytes=0)
    world.file.truncate(MIB - 5 * K4 - 100)
    assert world.file.free_bytes == 5 * K4
    world.file.truncate(MIB)
    assert world.read(MIB - 8 * K4, 8 * K4) == b"a" * (3 * K4 - 100) + bytes(5 * K4 + 100)
