"""The rotating disk: seek by distance, rotation, streaming."""

from __future__ import annotations

import pytest
from closed_loop import World, flush, list_io, random_io, read, sequential_io

from blktwin.block.bio import REQ_OP_READ
from blktwin.sim.devices.hdd import HddDevice, seek_table

DISK = "/dev/sda=hdd,size=1000g,overhead=0"
SECTORS = 1000 * 2**30 // 512
ROTATION_NS = 60 * 10**9 // 7200


def test_random_reads_take_seek_and_half_a_turn() -> None:
    """Across the whole disk: 8.5 ms of seek, 4.2 ms of rotation, as data sheets say."""
    world = World(DISK)
    world.job(random_io(1, REQ_OP_READ, 8, 2000, SECTORS))
    world.run()
    world.check_conservation()
    mean_ns = sum(done.ns for done in world.jobs[0].done) / 2000
    assert mean_ns == pytest.approx(8.5e6 + ROTATION_NS / 2, rel=0.03)


def test_sequential_reads_stream() -> None:
    """The platter's speed, at depth 1 and small blocks too."""
    for sectors in (8, 256):
        world = World(DISK)
        world.job(sequential_io(REQ_OP_READ, sectors, 2000))
        world.run()
        last = world.jobs[0].done[-1].done_ns
        assert sectors * 512 * 2000 / last * 1e9 / 2**20 == pytest.approx(180, rel=0.05)


def test_a_stream_that_pauses_still_pays_the_controller() -> None:
    """What was read ahead is there at once, but not before the command was taken."""
    world = World(DISK.replace("overhead=0", "overhead=50us"))
    world.job(list_io([read(0)]))
    world.job(list_io([read(8)]), at_ns=10**9)
    world.run()
    assert world.jobs[1].done[0].ns == 50_000


def test_near_is_faster_than_far() -> None:
    """Seek times grow with the distance, from the next track to the far end."""
    table = seek_table(800_000, 15_300_000)
    assert table == sorted(table)
    assert (table[0], table[-1]) == (800_000, 15_300_000)
    world = World(DISK)
    far = SECTORS - 8
    world.job(list_io([read(0), read(far), read(far - 4 * 10**6), read(0)]))
    world.run()
    _, there, near, back = (done.ns for done in world.jobs[0].done)
    assert there > 15_200_000
    assert back > 15_200_000
    assert near < 1_700_000 + ROTATION_NS


def test_the_platter_turns_with_the_clock() -> None:
    """A sector comes under the head once a turn, at the same angle."""
    device = World(DISK).device
    assert isinstance(device, HddDevice)
    for sector in (0, 1000, 3071):
        for now_ns in (0, 1, 5_000_000, 123_456_789):
            arrival = now_ns + int(device.rotate(sector, now_ns))
            place = sector % int(device.track_sectors) * ROTATION_NS // int(device.track_sectors)
            assert arrival % ROTATION_NS == place
            assert 0 <= arrival - now_ns < ROTATION_NS


def test_one_arm() -> None:
    """Requests are served in turn: the second waits for the first; a flush finds nothing to write."""
    world = World(DISK + ",write_cache=1")
    world.job(list_io([read(10**6), read(10**9), flush()]), 3)
    world.run()
    world.check_conservation()
    done = sorted(world.jobs[0].done, key=lambda one: one.number)
    assert done[1].done_ns > done[0].done_ns + 800_000
    assert done[2].done_ns == done[1].done_ns


def test_rotational_flag() -> None:
    """The queue knows that the disk turns, unless told otherwise."""
    assert World(DISK).limits.is_rotational
    assert not World(DISK + ",rotational=0").limits.is_rotational
