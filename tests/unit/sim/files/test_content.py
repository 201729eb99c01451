"""A file against a plain bytearray: direct and buffered, sparse, shared, punched, truncated, and after a power cut."""

from __future__ import annotations

from file_world import DISK, FileWorld
from hypothesis import given, settings
from hypothesis import strategies as st

from blktwin.drivers.backing import EOPNOTSUPP, IOCB_DIRECT
from blktwin.sim.files.params import FileParams

SECTOR = 512
SIZE = 32 * 4096
GROW = 8 * 4096

SHAPES = st.sampled_from(["mapped", "sparse", "mixed", "shared"])
KINDS = st.sampled_from(["ext4", "xfs", "btrfs", "f2fs", "overlayfs", "tmpfs"])
PLACES = st.integers(0, (SIZE + GROW) // SECTOR - 1)
LENGTHS = st.one_of(st.integers(1, 64), st.sampled_from([8, 16, 80]))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["write", "write", "buffered", "buffered", "read", "cached", "punch", "zero", "truncate", "fsync"]
        ),
        PLACES,
        LENGTHS,
    ),
    max_size=30,
)


def make_file(kind: str, shape: str) -> FileWorld:
    """Build a file whose device holds old bytes where the file has none."""
    params = FileParams(kind, SIZE, keeps_bytes=True)
    params.grow_bytes = GROW
    params.extent_bytes = 8192
    params.seed = 5
    if shape == "sparse":
        params.is_sparse = True
    elif shape == "mixed":
        params.p_hole = params.p_unwritten = 0.3
    elif shape == "shared" and kind in ("xfs", "btrfs"):
        params.p_shared = 0.6
        params.p_hole = 0.2
    world = FileWorld(params, disk=DISK + ",depth=4")
    for sector in range((SIZE + GROW) // SECTOR):
        world.image.write((world.base_bytes >> 9) + sector, bytes([sector % 255 + 1]) * SECTOR)
    world.image.flush()
    return world


def step(world: FileWorld, model: bytearray, what: str, pos: int, nbytes: int, fill: int) -> None:
    """Do one thing to the file and to the model, and compare what they say."""
    if what in ("write", "buffered"):
        nbytes = min(nbytes, SIZE + GROW - pos)
        data = bytes([fill]) * nbytes
        assert world.write(pos, data, IOCB_DIRECT if what == "write" else 0) == nbytes
        if len(model) < pos + nbytes:
            model.extend(bytes(pos + nbytes - len(model)))
        model[pos : pos + nbytes] = data
    elif what in ("read", "cached"):
        assert world.read(pos, nbytes, IOCB_DIRECT if what == "read" else 0) == bytes(model[pos : pos + nbytes])
    elif what in ("punch", "zero"):
        nbytes = min(nbytes, SIZE + GROW - pos)
        result = (world.punch if what == "punch" else world.zero)(pos, nbytes)
        if world.params.kind == "tmpfs" and what == "zero":
            assert result == -EOPNOTSUPP
            return
        assert result == 0
        end = min(pos + nbytes, len(model))
        if pos < end:
            model[pos:end] = bytes(end - pos)
    elif what == "truncate":
        world.file.truncate(pos)
        del model[pos:]
        model.extend(bytes(pos - len(model)))
    else:
        assert world.fsync() == 0
    assert world.file.size_bytes() == len(model)


@settings(deadline=None)
@given(KINDS, SHAPES, STEPS)
def test_content(kind: str, shape: str, steps: list[tuple[str, int, int]]) -> None:
    """Whatever is done, a reader finds what was written last, and zeros elsewhere."""
    world = make_file(kind, shape)
    model = bytearray(world.file.content(0, SIZE))
    assert len(model) == SIZE
    for number, (what, sector, nr_sectors) in enumerate(steps):
        step(world, model, what, sector * SECTOR, nr_sectors * SECTOR, number % 255 + 1)
    assert world.file.content(0, SIZE + GROW) == bytes(model)
    assert world.read(0, SIZE + GROW) == bytes(model)
    assert world.file.dio_in_flight == 0
    assert not world.file.inode_lock.is_written
    assert world.file.inode_lock.nr_readers == 0
    assert not world.file.map_lock.is_written
    assert world.file.map_lock.nr_readers == 0
