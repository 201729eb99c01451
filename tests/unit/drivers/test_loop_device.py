"""The life of a loop device: binding, what is checked, changes, lazy unbinding; and loop-control."""

from __future__ import annotations

import pytest
from fake_loop import MIB, FakeBacking, LoopWorld

from blktwin.block.bio import BLK_STS_IOERR, BLK_STS_OK
from blktwin.block.rules import Rules
from blktwin.drivers.loop.config import COMPAT_NAMES, KernelCompat, LoopConfig
from blktwin.drivers.loop.control import LoopControl
from blktwin.drivers.loop.device import LoopDevice
from blktwin.errors import ConfigError


def test_size_and_state() -> None:
    """A bound device has the file's size in whole sectors, and fsync makes a write cache."""
    world = LoopWorld(size_bytes=MIB + 700)
    assert world.device.state == "bound"
    assert world.q.capacity_sectors == (MIB + 512) // 512
    limits = world.device.limits
    assert limits.has_write_cache
    assert not limits.has_fua
    assert limits.logical_block_bytes == 512
    assert (limits.max_sectors, limits.max_discard_sectors) == (2560, 0xFFFFFFFF >> 9)
    assert limits.discard_granularity_bytes == 4096


def test_limits_of_other_files() -> None:
    """A block device has its own limit of zeroes; a file without fallocate or fsync has none, and no cache."""
    world = LoopWorld()
    backing = FakeBacking(world.machine)
    backing.is_block_device, backing.max_zeroes_sectors, backing.block_bytes = True, 1000, 512
    limits = LoopDevice(world.machine, world.q.rules, "loop1", LoopConfig(), backing).limits
    assert (limits.max_discard_sectors, limits.max_write_zeroes_sectors) == (1000, 1000)
    assert limits.discard_granularity_bytes == 512
    backing = FakeBacking(world.machine)
    backing.can_fallocate, backing.can_fsync, backing.is_rotational = False, False, True
    limits = LoopDevice(world.machine, world.q.rules, "loop1", LoopConfig(), backing).limits
    assert (limits.max_discard_sectors, limits.max_write_zeroes_sectors) == (0, 0)
    assert not limits.has_write_cache
    assert limits.is_rotational
    backing = FakeBacking(world.machine)
    backing.is_read_only = True
    device = LoopDevice(world.machine, world.q.rules, "loop1", LoopConfig(), backing)
    assert device.driver.is_read_only
    assert not device.limits.has_write_cache
    assert device.notes == ["read-only, as its file is"]


@pytest.mark.parametrize(
    ("align", "block", "offset", "is_direct", "logical", "why"),
    [
        (512, 0, 0, True, 512, ""),
        (4096, 0, 0, True, 4096, ""),
        (4096, 512, 0, False, 512, "the sector size is 512, and direct I/O on the file needs 4096"),
        (4096, 4096, 8192, True, 4096, ""),
        (4096, 4096, 512, False, 4096, "the offset 512 is no multiple of 4096"),
        (512, 4096, 512, True, 4096, ""),
    ],
)
def test_direct_io_goes_off_in_silence(
    align: int, block: int, offset: int, is_direct: bool, logical: int, why: str
) -> None:
    """What cannot be is no error when it is asked for at the binding; the device's flag and notes say so."""
    world = LoopWorld()
    backing = FakeBacking(world.machine)
    backing.dio_align_bytes = align
    config = LoopConfig()
    config.direct_io, config.block_bytes, config.offset_bytes = True, block, offset
    device = LoopDevice(world.machine, world.q.rules, "loop1", config, backing)
    assert device.is_direct is is_direct
    assert device.limits.logical_block_bytes == logical
    assert why in "".join(device.notes)
    assert bool(device.notes) is not is_direct


def test_policies_that_have_no_effect_are_noted() -> None:
    """Inline policies of a buffered device, or of a file that cannot do without sleeping."""
    assert (
        "nowait_first has no effect: the device is buffered" in LoopWorld("nowait_first", direct=False).device.notes[0]
    )
    assert LoopWorld("nowait_first").device.notes == []
    world = LoopWorld("sync_read")
    backing = FakeBacking(world.machine)
    backing.can_nowait = False
    device = LoopDevice(world.machine, world.q.rules, "loop1", world.device.config, backing)
    assert "no FMODE_NOWAIT" in device.notes[0]
    cannot = FakeBacking(world.machine)
    cannot.can_direct = False
    device = LoopDevice(world.machine, world.q.rules, "loop1", world.device.config, cannot)
    assert "cannot be opened with O_DIRECT" in device.notes[0]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("policy", "nowait_frist", "policy: nowait_frist is none of .*; did you mean nowait_first"),
        ("nowait_variant", "v6", "nowait-variant: v6 is none of v4, v5, fixed"),
        ("queue_depth", 0, "queue-depth: 0 is not in 1..10240"),
        ("queue_depth", 10241, "queue-depth"),
        ("nr_hw_queues", 0, "nr-hw-queues"),
        ("offset_bytes", -1, "EINVAL"),
        ("offset_bytes", 1 << 63, "EOVERFLOW"),
        ("sizelimit_bytes", 1 << 63, "EOVERFLOW"),
        ("block_bytes", 511, "EINVAL"),
        ("block_bytes", 8192, "EINVAL"),
        ("block_bytes", 1536, "EINVAL"),
    ],
)
def test_wrong_options(key: str, value: object, text: str) -> None:
    """One line each."""
    config = LoopConfig()
    setattr(config, key, value)
    world = LoopWorld()
    with pytest.raises(ConfigError, match=text):
        LoopDevice(world.machine, Rules("test"), "loop1", config, FakeBacking(world.machine))


def test_names_of_switches() -> None:
    """Every switch is off, can be turned on by name, and has a name."""
    compat = KernelCompat()
    assert compat.enabled() == []
    compat.enable(COMPAT_NAMES)
    assert tuple(compat.enabled()) == COMPAT_NAMES
    with pytest.raises(ConfigError, match="no such kernel bug: short_write; did you mean short_write_ok"):
        compat.enable(["short_write"])


def test_the_size_is_cached() -> None:
    """A file that grows or shrinks changes nothing until it is asked for."""
    world = LoopWorld()
    world.backing.bytes.extend(bytes(MIB))
    assert world.q.capacity_sectors == MIB // 512
    assert world.go(world.read(MIB // 512)) == [BLK_STS_IOERR]
    assert world.backing.seen == []
    world.device.set_capacity()
    assert world.go(world.read(MIB // 512)) == [BLK_STS_OK]


def test_set_status() -> None:
    """Offset and limit move the device; the partition scan is never taken back; direct I/O may go off."""
    world = LoopWorld()
    device = world.device
    device.set_status(offset_bytes=4096, sizelimit_bytes=8192, partscan=True)
    assert world.q.capacity_sectors == 16
    assert world.go(world.write(0)) == [BLK_STS_OK]
    assert world.backing.seen[0][1] == 4096
    device.set_status(offset_bytes=100, sizelimit_bytes=0)
    assert device.config.partscan
    assert not device.is_direct
    assert world.q.capacity_sectors == (MIB - 100) // 512
    with pytest.raises(ConfigError, match="EOVERFLOW"):
        device.set_status(offset_bytes=1 << 63, sizelimit_bytes=0)


def test_set_direct_io_and_block_size() -> None:
    """Here direct I/O that cannot be is an error; a block size that is too small for it puts it off."""
    world = LoopWorld()
    device = world.device
    world.backing.dio_align_bytes = 4096
    device.set_direct_io(False)
    with pytest.raises(ConfigError, match=r"loop0: EINVAL: the sector size is 512"):
        device.set_direct_io(True)
    device.set_block_size(4096)
    device.set_direct_io(True)
    assert world.driver.is_direct
    device.set_block_size(512)
    assert not device.is_direct
    with pytest.raises(ConfigError, match="EINVAL"):
        device.set_block_size(1000)


def test_change_fd() -> None:
    """Only for a read-only device, and only to a file of the same size."""
    world = LoopWorld()
    other = FakeBacking(world.machine)
    with pytest.raises(ConfigError, match="EINVAL: .*not read-only"):
        world.device.change_fd(other)
    config = LoopConfig()
    config.read_only = True
    world = LoopWorld(config=config)
    other = FakeBacking(world.machine)
    other.bytes[:4] = b"next"
    world.device.change_fd(other)
    bio = world.read(0)
    assert world.go(bio) == [BLK_STS_OK]
    assert bio.data is not None
    assert bytes(bio.data[:4]) == b"next"
    with pytest.raises(ConfigError, match="EINVAL: the other file has"):
        world.device.change_fd(FakeBacking(world.machine, MIB // 2))


def test_changes_only_with_nothing_in_flight() -> None:
    """What the kernel waits for by a freeze is the caller's business."""
    world = LoopWorld()
    world.submit(world.read(0))
    world.run(1000)
    assert world.device.in_flight() == 1
    with pytest.raises(AssertionError, match="changed with 1 requests in flight"):
        world.device.set_direct_io(False)
    world.run(10**9)
    world.device.set_direct_io(False)
    assert not world.driver.is_direct


def test_unbinding_is_lazy() -> None:
    """A device in use goes at its last close; meanwhile it lives, and nobody else may open it once it goes."""
    world = LoopWorld()
    device = world.device
    device.open()
    device.open()
    device.clear()
    assert device.state == "bound"
    assert world.go(world.read(0), cgroup="/a") == [BLK_STS_OK]
    device.release()
    device.release()
    assert device.state == "unbound"
    assert world.driver.idle_workers.nr_freed == 1
    assert world.q.capacity_sectors == 0
    with pytest.raises(ConfigError, match="loop0: ENXIO: is unbound"):
        device.clear()
    device.open()
    device.configure(LoopConfig(), world.backing)
    with pytest.raises(ConfigError, match="EBUSY: is bound"):
        device.configure(LoopConfig(), world.backing)
    device.clear()
    assert device.state == "rundown"
    assert world.go(world.read(0)) == [BLK_STS_IOERR]
    with pytest.raises(ConfigError, match="ENXIO: is rundown"):
        device.open()
    device.release()
    assert device.state == "unbound"
    world.check_quiet()


def test_two_devices_on_one_file() -> None:
    """Allowed; buffered and direct see the same bytes here, for the fake has no cache."""
    world = LoopWorld()
    other = world.other_device()
    write = world.write(0)
    read = world.read(0)
    read.target = other.q
    assert world.go(write) == [BLK_STS_OK]
    assert world.go(read) == [BLK_STS_OK]
    assert read.data == write.data


def test_a_file_on_the_device_itself() -> None:
    """EBADF, also through another loop device; EINVAL through one that is not bound."""
    world = LoopWorld()
    backing = FakeBacking(world.machine)
    backing.lower_name = "loop1"
    with pytest.raises(ConfigError, match="EBADF"):
        LoopDevice(world.machine, world.q.rules, "loop1", LoopConfig(), backing)
    control = LoopControl()
    control.add(0, world.device)
    control.validate(world.device, FakeBacking(world.machine))
    other = LoopDevice(world.machine, world.q.rules, "loop1", LoopConfig(), on(world, "loop0"))
    control.add(1, other)
    with pytest.raises(ConfigError, match="loop0: EBADF"):
        control.validate(world.device, on(world, "loop1"))
    other.clear()
    with pytest.raises(ConfigError, match="EINVAL: its file is on loop1, which is unbound"):
        control.validate(world.device, on(world, "loop1"))


def test_loop_control() -> None:
    """Add, remove, find a free one."""
    world = LoopWorld()
    control = LoopControl()
    assert control.free_number() == 0
    control.add(0, world.device)
    assert control.free_number() == 1
    for number, text in ((-1, "EINVAL"), (7, "ENODEV"), (0, "EBUSY: loop0 is bound")):
        with pytest.raises(ConfigError, match=text):
            control.remove(number)
    with pytest.raises(ConfigError, match="EEXIST"):
        control.add(0, world.device)
    with pytest.raises(ConfigError, match="EINVAL"):
        control.add(-1, world.device)
    world.device.clear()
    assert control.free_number() == 0
    control.remove(0)
    assert world.device.state == "deleting"


def on(world: LoopWorld, name: str) -> FakeBacking:
    """Return a file on the device of that name."""
    backing = FakeBacking(world.machine)
    backing.lower_name = name
    return backing
