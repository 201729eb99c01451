"""Buffered writes and fsync: what reaches the device, and who is told when it fails."""

from __future__ import annotations

import pytest

from blktwin.block.bdev import BlockDevice, OpenFile
from blktwin.block.bio import BLK_STS_IOERR, BLK_STS_MEDIUM, BLK_STS_OK
from blktwin.fio import jobfile
from blktwin.fio.ddir import WRITE
from blktwin.fio.results import RunResult
from blktwin.lab.run import prepare, simulate
from blktwin.lab.stack import Stack
from blktwin.sim.devices.spec import parse_device

WORDS = "--name=job --direct=0 --rw=write --filename=/dev/sda"


def run(words: str, device: str, **stack: object) -> RunResult:
    """Run buffered writers on one device."""
    plan = jobfile.load([], f"{WORDS} {words}".split(), env={})
    return simulate(plan, Stack(devices=[parse_device(f"/dev/sda={device}")], **stack))  # type: ignore[arg-type]


@pytest.mark.parametrize("block", [512, 4096, 16384, 65536])
@pytest.mark.parametrize("length", ["4k", "64k"])
def test_every_dirty_byte_reaches_the_device_once(block: int, length: str) -> None:
    result = run(f"--bs={length} --size=256k --fsync=64 --end_fsync=1", f"nvme,lbs={block}")
    assert result.jobs[0].stat.directions[WRITE].io_bytes == 256 << 10
    [disk] = result.disk_util
    # Before merging there is one bio a block, or a page if that is more.
    assert disk.write_ios + disk.write_merges == (256 << 10) // max(block, 4096)


@pytest.mark.parametrize("device", ["nvme,write_cache=0", "nvme,write_cache=1"])
def test_a_failed_writeback_fails_the_fsync(device: str) -> None:
    result = run("--size=64k --fsync=4", device, faults={"io_error_ppm": 1_000_000})
    stat = result.jobs[0].stat
    assert (stat.error, stat.error_text) == (5, "fsync failed")
    assert stat.directions[WRITE].io_bytes == 16 << 10


def bdev_of(words: str) -> BlockDevice:
    """Return the device of a world that has not run."""
    world, _ = prepare(jobfile.load([], f"{WORDS} {words}".split(), env={}), Stack())
    return world.disks["/dev/sda"].bdev


def test_an_error_is_told_once_to_everyone_who_had_the_device_open() -> None:
    bdev = bdev_of("--size=64k --fsync=1")
    one, two, late = OpenFile(bdev), OpenFile(bdev), OpenFile(bdev)
    one.open()
    two.open()
    for status in (BLK_STS_MEDIUM, BLK_STS_IOERR):
        bdev.in_writeback += 1
        bdev.writeback_done(1, status)
    # The page cache keeps no more of it than EIO, and two before the first telling are one.
    assert [one.tell_error(), one.tell_error()] == [BLK_STS_IOERR, BLK_STS_OK]
    late.open()
    assert late.tell_error() == BLK_STS_OK
    assert [two.tell_error(), two.tell_error()] == [BLK_STS_IOERR, BLK_STS_OK]
    bdev.in_writeback += 1
    bdev.writeback_done(2, BLK_STS_IOERR)
    assert [one.tell_error(), late.tell_error()] == [BLK_STS_IOERR, BLK_STS_IOERR]


def test_an_error_that_nobody_knows_yet_waits_for_who_opens_next() -> None:
    bdev = bdev_of("--size=64k --fsync=1")
    bdev.in_writeback += 1
    bdev.writeback_done(1, BLK_STS_IOERR)
    file = OpenFile(bdev)
    file.open()
    assert file.tell_error() == BLK_STS_IOERR
