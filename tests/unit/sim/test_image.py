"""The bytes of a device: reads, flushes, FUA, and what a power cut may leave."""

from __future__ import annotations

from closed_loop import World
from hypothesis import given
from hypothesis import strategies as st

from blktwin.block.bio import REQ_FUA, REQ_OP_READ, REQ_OP_WRITE, REQ_OP_WRITE_ZEROES, REQ_PREFLUSH, REQ_SYNC, Bio
from blktwin.block.machine import Task
from blktwin.block.submit import submit_bio
from blktwin.rng import Rng
from blktwin.sim.image import SECTOR, ZEROS, Image
from blktwin.sim.machine import SimMachine

PLACES = st.integers(0, 11)
ACTS = st.lists(
    st.tuples(st.sampled_from(["write", "write", "write", "zero", "flush", "part"]), PLACES, st.integers(1, 4)),
    max_size=25,
)


def chunk(fill: int) -> bytes:
    """Return a sector of one byte."""
    return bytes([fill]) * SECTOR


def test_unwritten_sectors_are_zero() -> None:
    """Nothing is stored for what was never written, or was zeroed."""
    image = Image()
    assert image.read(5, 2) == bytes(2 * SECTOR)
    image.write(5, chunk(1))
    image.zero(4, 3)
    image.flush()
    assert image.read(4, 3) == bytes(3 * SECTOR)
    assert not image.stable


@given(ACTS, st.booleans(), st.integers(0, 1 << 30))
def test_image(acts: list[tuple[str, int, int]], has_cache: bool, seed: int) -> None:
    """Reads see the newest bytes; a crash leaves, for each sector, the flushed ones or any that came later."""
    image = Image(has_cache)
    model = [ZEROS] * 16
    may_be = [[ZEROS] for _ in range(16)]
    """What a crash may leave, oldest first."""
    marks: list[tuple[int, list[int]]] = []
    for number, (act, sector, count) in enumerate(acts, 1):
        if act == "write":
            image.write(sector, chunk(number) * count)
        elif act == "zero":
            image.zero(sector, count)
        elif act == "flush":
            image.flush()
            may_be = [[one] for one in model]
            marks.clear()
            continue
        else:
            # A flush that came earlier, and ends now: it covers what had completed by then.
            if marks:
                serial, lengths = marks.pop(0)
                image.flush(serial)
                may_be = [one[length - 1 :] for one, length in zip(may_be, lengths, strict=True)]
                marks.clear()
            marks.append((image.serial, [len(one) for one in may_be]))
            continue
        for at in range(sector, sector + count):
            model[at] = chunk(number) if act == "write" else ZEROS
            may_be[at].append(model[at])
            if not has_cache:
                may_be[at] = [model[at]]
        if not has_cache:
            marks.clear()
    assert image.read(0, 16) == b"".join(model)
    for trial in range(4):
        after = image.crash(Rng(seed, trial), [])
        for at in range(16):
            assert bytes(after.read(at, 1)) in may_be[at]
        assert not after.cached
    assert image.read(0, 16) == b"".join(model), "a crash has changed the image itself"


def test_a_crash_leaves_any_subset() -> None:
    """Two sectors with one unflushed write each come back in all four ways."""
    image = Image()
    image.write(0, chunk(1) * 2)
    seen = {bytes(image.crash(Rng(seed, 0), []).read(0, 2)) for seed in range(64)}
    assert seen == {a + b for a in (ZEROS, chunk(1)) for b in (ZEROS, chunk(1))}


# -- behind a device


class Quiet(Bio):
    """A bio whose end nobody waits for."""

    def end_io(self) -> None:
        """Nothing."""


class Submitter(Task):
    """A task that submits bios."""

    def __init__(self, machine: SimMachine, world: World, bios: list[Bio]) -> None:
        super().__init__(1, "submitter", machine.cgroups.root)
        self.world = world
        self.bios = bios

    def run(self) -> None:
        """Submit all."""
        for bio in self.bios:
            submit_bio(self.world.q, bio)


def make_bio(op: int, flags: int, sector: int, data: bytes | None, nr_sectors: int = 0) -> Bio:
    """Return a bio with bytes."""
    bio = Quiet()
    bio.op, bio.flags, bio.sector = op, flags, sector
    bio.nr_sectors = nr_sectors or (len(data) // SECTOR if data else 0)
    bio.data = None if data is None else bytearray(data)
    return bio


def run_bios(world: World, *bios: Bio) -> None:
    """Submit bios together and run to the end."""
    world.machine.start_task(Submitter(world.machine, world, list(bios)), 0, int(world.machine.events.now_ns))
    world.run()


def make_world(more: str = "") -> tuple[World, Image]:
    """Build a device with a write cache and a store."""
    world = World("/dev/nullb0,size=16m,latency=10us,write_cache=1" + more)
    image = Image()
    world.device.store = image
    return world, image


def test_requests_move_bytes() -> None:
    """A write's bytes are there after it, split or merged, and a read brings them."""
    world, image = make_world(",max_sectors_kb=4")
    data = b"".join(chunk(number) for number in range(1, 25))
    run_bios(world, make_bio(REQ_OP_WRITE, REQ_SYNC, 100, data))
    assert image.read(100, 24) == data
    read = make_bio(REQ_OP_READ, 0, 98, bytes(SECTOR * 20))
    run_bios(world, read)
    assert bytes(read.data or b"") == bytes(2 * SECTOR) + data[: 18 * SECTOR]
    run_bios(world, make_bio(REQ_OP_WRITE_ZEROES, 0, 101, None, 4))
    assert image.read(100, 6) == data[:SECTOR] + bytes(4 * SECTOR) + data[5 * SECTOR : 6 * SECTOR]


def test_flush_and_fua() -> None:
    """A flush makes what is cached stable; a FUA write is stable by itself."""
    world, image = make_world(",fua=1")
    run_bios(world, make_bio(REQ_OP_WRITE, REQ_SYNC, 0, chunk(1)))
    run_bios(world, make_bio(REQ_OP_WRITE, REQ_SYNC | REQ_FUA, 8, chunk(2)))
    assert set(image.cached) == {0}
    assert image.stable == {8: chunk(2)}
    run_bios(world, make_bio(REQ_OP_WRITE, REQ_SYNC | REQ_PREFLUSH, 0, None))
    assert image.stable == {0: chunk(1), 8: chunk(2)}


def test_a_flush_covers_what_had_completed_when_it_came() -> None:
    """A write that ends while a flush is under way is not covered by it."""
    world, image = make_world()
    run_bios(
        world,
        make_bio(REQ_OP_WRITE, REQ_SYNC, 0, chunk(1)),
        make_bio(REQ_OP_WRITE, REQ_SYNC | REQ_PREFLUSH, 0, None),
    )
    assert set(image.cached) == {0}


def test_writes_in_flight_may_survive() -> None:
    """A power cut in the middle of a write leaves any part of its sectors."""
    world, _ = make_world()
    world.machine.start_task(Submitter(world.machine, world, [make_bio(REQ_OP_WRITE, REQ_SYNC, 0, chunk(7) * 2)]), 0, 0)
    world.run(5000)
    seen = {bytes(world.device.crash(Rng(seed, 0)).read(0, 2)) for seed in range(64)}
    assert len(seen) == 4
    assert world.device.store is not None
    assert world.device.store.read(0, 2) == bytes(2 * SECTOR)


def test_failed_writes_leave_no_bytes() -> None:
    """An I/O error is no write."""
    world = World("/dev/nullb0,size=16m,latency=10us", faults={"io_error_ppm": 1_000_000})
    world.device.store = image = Image()
    run_bios(world, make_bio(REQ_OP_WRITE, REQ_SYNC, 0, chunk(1)))
    assert image.read(0, 1) == ZEROS
