"""What becomes of a request when its file operation ends: whole, short, at the end of the file, or with an error."""

from __future__ import annotations

import pytest
from fake_loop import DataBio, LoopWorld

from blktwin.block.bio import (
    BLK_STS_AGAIN,
    BLK_STS_DEV_RESOURCE,
    BLK_STS_INVAL,
    BLK_STS_IOERR,
    BLK_STS_MEDIUM,
    BLK_STS_NOSPC,
    BLK_STS_NOTSUPP,
    BLK_STS_OK,
    BLK_STS_RESOURCE,
    BLK_STS_TIMEOUT,
    REQ_NOUNMAP,
)
from blktwin.drivers.backing import EIOCBQUEUED, FILE_FSYNC, FILE_PUNCH, FILE_READ, FILE_WRITE, FILE_ZERO
from blktwin.drivers.loop.config import LoopConfig

POLICIES = ["workqueue", "per_command", "sync_read", "nowait_first"]
ERRNOS = {
    5: BLK_STS_IOERR,
    11: BLK_STS_AGAIN,
    12: BLK_STS_RESOURCE,
    16: BLK_STS_DEV_RESOURCE,
    22: BLK_STS_INVAL,
    28: BLK_STS_NOSPC,
    61: BLK_STS_MEDIUM,
    95: BLK_STS_NOTSUPP,
    110: BLK_STS_TIMEOUT,
    117: BLK_STS_IOERR,
}


def content(bio: DataBio) -> bytes:
    """Return what a read has got."""
    assert bio.data is not None
    return bytes(bio.data)


@pytest.mark.parametrize("errno", ERRNOS)
@pytest.mark.parametrize("later", [0, EIOCBQUEUED])
def test_errors_of_reads_and_writes(errno: int, later: int) -> None:
    """Each error number has its status, whether it comes at once or later."""
    world = LoopWorld()
    result = later + errno if later else -errno
    world.backing.answers = [(FILE_READ, 0, result), (FILE_WRITE, 0, result)]
    assert world.go(world.read(0), world.write(8)) == [ERRNOS[errno]] * 2
    world.check_quiet()


@pytest.mark.parametrize("errno", ERRNOS)
def test_errors_of_other_operations(errno: int) -> None:
    """A flush or fallocate has one error that keeps its name."""
    world = LoopWorld()
    world.backing.answers = [(FILE_FSYNC, 0, -errno), (FILE_PUNCH, 0, -errno)]
    wanted = BLK_STS_NOTSUPP if errno == 95 else BLK_STS_IOERR
    assert world.go(world.discard(8)) == [wanted]
    assert world.go(world.flush()) == [wanted]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("direct", [False, True])
def test_short_write_is_never_acknowledged(policy: str, direct: bool) -> None:
    """The rest is tried in a worker; all of it stored, or an error."""
    world = LoopWorld(policy, direct=direct)
    world.backing.answers = [(FILE_WRITE, 0, 1024)]
    bio = world.write(0, 64, bytes(range(256)) * 128)
    assert world.go(bio) == [BLK_STS_OK]
    assert world.backing.bytes[: 64 << 9] == bytes(range(256)) * 128
    assert world.trace.of("W")[-1] == "short"
    world.backing.end_limit = 8192 + 512
    assert world.go(world.write(16, 8)) == [BLK_STS_IOERR]
    world.check_quiet()


def test_short_write_ok_loses_data() -> None:
    """The kernel's bug: acknowledged whole, stored in part."""
    world = LoopWorld(direct=False, bugs=("short_write_ok",))
    world.backing.end_limit = 1024
    assert world.go(world.write(0, 8, b"x" * 4096)) == [BLK_STS_OK]
    assert world.backing.bytes[:4096] == b"x" * 1024 + bytes(3072)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("direct", [False, True])
def test_read_across_the_end_of_a_shrunk_file(policy: str, direct: bool) -> None:
    """The part before the end is accounted, the rest is zeros and an error; the requeued part is issued anew."""
    world = LoopWorld(policy, direct=direct)
    world.backing.bytes = bytearray(b"a" * (20 << 9))
    bio = world.read(0, 32)
    assert world.go(bio) == [BLK_STS_IOERR]
    assert content(bio) == b"a" * (20 << 9) + bytes(12 << 9)
    rows = [(row.act, row.sector, row.length) for row in world.trace.rows if row.act in "DCR"]
    assert rows == [("D", 0, 32), ("C", 0, 20), ("R", 20, 12), ("D", 20, 12), ("C", 20, 12)]
    beyond = world.read(64)
    assert world.go(beyond) == [BLK_STS_IOERR]
    assert content(beyond) == bytes(4096)
    world.check_quiet()


@pytest.mark.parametrize("cut", [1, 8, 20, 21])
def test_short_read_of_merged_bios(cut: int) -> None:
    """A short transfer ends the bios that it covers, and the rest is read in a new pass."""
    world = LoopWorld("nowait_first")
    world.backing.bytes[: 32 << 9] = bytes(range(256)) * 64
    bios = [world.read(at * 8) for at in range(4)]
    world.backing.answers = [(FILE_READ, 0, cut << 9)]
    assert world.go(*bios, plugged=True) == [BLK_STS_OK] * 4
    assert b"".join(content(bio) for bio in bios) == bytes(range(256)) * 64
    assert len(world.backing.seen) == 2
    assert world.backing.seen[1][1] == cut << 9
    world.check_quiet()


def test_a_read_that_ends_within_a_sector() -> None:
    """Less than a sector is as nothing: the end of the file."""
    world = LoopWorld()
    world.backing.bytes = bytearray(b"a" * 100)
    bio = world.read(0)
    assert world.go(bio) == [BLK_STS_IOERR]
    assert content(bio) == bytes(4096)


def test_eof_read_zero_success() -> None:
    """The old bug of buffered reads: success, and zeros where data had been read."""
    world = LoopWorld(direct=False, bugs=("eof_read_zero_success",))
    world.backing.bytes = bytearray(b"a" * (20 << 9))
    bio = world.read(0, 32)
    assert world.go(bio) == [BLK_STS_OK]
    assert content(bio) == bytes(32 << 9)
    direct = LoopWorld(bugs=("eof_read_zero_success",))
    direct.backing.bytes = bytearray(b"a" * (20 << 9))
    assert direct.go(direct.read(0, 32)) == [BLK_STS_IOERR]


def test_write_beyond_the_end_extends_the_file() -> None:
    """The size of the device is cached: a write behind the end of a shrunk file makes it longer again."""
    world = LoopWorld()
    world.backing.bytes = bytearray(4096)
    assert world.go(world.write(64)) == [BLK_STS_OK]
    assert len(world.backing.bytes) == 72 << 9


@pytest.mark.parametrize("direct", [False, True])
def test_merged_writes_are_gathered(direct: bool) -> None:
    """One operation for all bios of a request."""
    world = LoopWorld("nowait_first", direct=direct)
    assert world.go(*(world.write(at * 8) for at in range(4)), plugged=True) == [BLK_STS_OK] * 4
    assert [(op, pos, size) for op, pos, size, _, _ in world.backing.seen] == [(FILE_WRITE, 0, 4 * 4096)]
    assert world.backing.bytes[: 4 * 4096] == b"".join(bytes([65 + at]) * 4096 for at in range(4))


def test_split_bios_carry_their_part() -> None:
    """A bio larger than a request is written and read in parts."""
    world = LoopWorld("nowait_first")
    data = bytes(range(256)) * 4096
    assert world.go(world.write(0, 2048, data)) == [BLK_STS_OK]
    assert len(world.backing.seen) > 1
    assert world.backing.bytes == data
    bio = world.read(0, 2048)
    assert world.go(bio) == [BLK_STS_OK]
    assert content(bio) == data


def test_offset_moves_all() -> None:
    """Positions in the file are behind the offset, and nothing is beyond the limit."""
    config = LoopConfig()
    config.offset_bytes = 8192
    config.sizelimit_bytes = 16384
    world = LoopWorld("nowait_first", config=config)
    assert world.go(world.write(8)) == [BLK_STS_OK]
    assert world.backing.seen[0][1] == 8192 + 4096
    assert world.go(world.write(32)) == [BLK_STS_IOERR]
    assert len(world.backing.seen) == 1


def test_discard_and_zeroes() -> None:
    """Both read back as zeros; the flag that keeps blocks chooses another operation."""
    world = LoopWorld()
    world.backing.bytes[:] = b"a" * len(world.backing.bytes)
    bios = [world.discard(0), world.zeroes(8), world.zeroes(16, flags=REQ_NOUNMAP)]
    assert world.go(*bios) == [BLK_STS_OK] * 3
    assert [seen[0] for seen in world.backing.seen] == [FILE_PUNCH, FILE_PUNCH, FILE_ZERO]
    assert world.backing.bytes[: 24 << 9] == bytes(24 << 9)
    assert world.backing.bytes[24 << 9 :] == b"a" * (len(world.backing.bytes) - (24 << 9))


def test_a_file_that_cannot_punch_loses_the_limits() -> None:
    """The first failure clears the limit; then nothing reaches the file, write-zeroes included."""
    world = LoopWorld()
    world.backing.answers = [(FILE_PUNCH, 0, -95)]
    racing = [world.discard(0), world.zeroes(64, flags=REQ_NOUNMAP)]
    assert world.go(*racing) == [BLK_STS_NOTSUPP] * 2
    assert len(world.backing.seen) == 1
    assert (world.device.limits.max_discard_sectors, world.device.limits.discard_granularity_bytes) == (0, 0)
    assert world.device.limits.max_write_zeroes_sectors > 0
    world.backing.answers = [(FILE_ZERO, 0, -95)]
    other = LoopWorld()
    other.backing.answers = [(FILE_ZERO, 0, -95)]
    assert other.go(other.zeroes(0, flags=REQ_NOUNMAP)) == [BLK_STS_NOTSUPP]
    assert other.device.limits.max_write_zeroes_sectors == 0
    assert other.go(other.discard(0)) == [BLK_STS_OK]


def test_read_only_device_changes_nothing() -> None:
    """Writes, discards and zeroes fail in the worker; a flush has nothing to flush."""
    config = LoopConfig()
    config.read_only = True
    for policy in POLICIES:
        world = LoopWorld(policy, config=config)
        bios = [world.write(0), world.discard(8), world.zeroes(16), world.flush(), world.read(24)]
        assert world.go(*bios) == [BLK_STS_IOERR] * 3 + [BLK_STS_OK] * 2
        assert [seen[0] for seen in world.backing.seen] == [FILE_READ]
        world.check_quiet()


def test_flush_is_an_fsync_by_the_root_worker() -> None:
    """Also from a task in a cgroup: it has no bio, hence no cgroup."""
    world = LoopWorld()
    assert world.go(world.write(0), world.flush(), cgroup="/a") == [BLK_STS_OK] * 2
    assert [seen[0] for seen in world.backing.seen] == [FILE_WRITE, FILE_FSYNC]
    assert world.driver.idle_workers.nr_made == 1
    world.check_quiet()


def test_no_memory_for_a_command() -> None:
    """The request ends with an error, once, whoever was to execute it."""
    for policy in POLICIES:
        world = LoopWorld(policy)
        world.driver.nr_failing_preps = 1
        assert world.go(world.read(0)) == [BLK_STS_IOERR]
        assert world.go(world.read(0)) == [BLK_STS_OK]
        world.check_quiet()


def test_prep_failure_completes_is_a_hang() -> None:
    """The posted code's bug: nobody ends the request."""
    world = LoopWorld("nowait_first", bugs=("prep_failure_completes",))
    world.driver.nr_failing_preps = 1
    bio = world.read(0)
    world.submit(bio)
    world.run()
    assert bio.ends == []
    assert world.device.in_flight() == 1
