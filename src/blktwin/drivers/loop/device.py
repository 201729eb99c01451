"""A loop device's life: bound to a file, changed, given up; what losetup and its ioctls do.

Kernel: loop_configure(), loop_set_status(), loop_change_fd(), __loop_clr_fd() and lo_simple_ioctl(),
drivers/block/loop.c, v6.12.y.
Differs: where the kernel freezes the queue and waits, the caller sees that nothing is in flight; no fsync is issued for
a configuration.
"""

from __future__ import annotations

from blktwin.block.elevator import Elevator
from blktwin.block.limits import QueueLimits
from blktwin.block.machine import Machine
from blktwin.block.queue import RequestQueue
from blktwin.block.rules import Rules
from blktwin.drivers.backing import Backing
from blktwin.drivers.loop.config import POLICY_PER_COMMAND, POLICY_RFC_EXACT, LoopConfig
from blktwin.drivers.loop.driver import (
    STATE_BOUND,
    STATE_DELETING,
    STATE_NAMES,
    STATE_RUNDOWN,
    STATE_UNBOUND,
    LoopDriver,
)
from blktwin.drivers.loop.limits import choose_block_bytes, size_sectors, update_limits, why_not_direct
from blktwin.errors import ConfigError


class LoopDevice:
    """One loop device with its queue; it is bound to backing at once, as losetup does it (LOOP_CONFIGURE)."""

    def __init__(
        self,
        machine: Machine,
        rules: Rules,
        name: str,
        config: LoopConfig,
        backing: Backing,
        elevator: Elevator | None = None,
        nr_requests: int = 0,
    ) -> None:
        config.check()
        self.machine: Machine = machine
        self.name: str = name
        self.config: LoopConfig = config
        self.backing: Backing | None = None
        self.notes: list[str] = []
        """What losetup would not tell: why direct I/O is off although it was asked for, and the like."""
        self.nr_openers: int = 0
        self.limits: QueueLimits = QueueLimits()
        self.driver: LoopDriver = LoopDriver(machine, self.limits, name, rules.loop_worker_per_cgroup)
        capacity = self.take(config, backing)
        self.q: RequestQueue = RequestQueue(
            machine,
            rules,
            self.driver,
            self.limits,
            name=name,
            capacity_sectors=capacity,
            # Kernel: blk_mq_alloc_tag_set(), block/blk-mq.c, v6.12: more queues than CPUs have nobody to serve.
            nr_hw_queues=min(config.nr_hw_queues, machine.nr_cpus),
            queue_depth=config.queue_depth,
            elevator=elevator,
            nr_requests=nr_requests,
        )
        self.order_bios()

    # -- what it is

    @property
    def is_direct(self) -> bool:
        """Whether it reads and writes its file directly: the flag in force, not the one asked for."""
        return self.driver.is_direct

    @property
    def state(self) -> str:
        """Its state by name: unbound, bound, rundown or deleting."""
        return STATE_NAMES[self.driver.state]

    def error(self, errno: str, text: str) -> ConfigError:
        """Return the error of an ioctl."""
        return ConfigError(f"{errno}: {text}", file=self.name)

    def in_flight(self) -> int:
        """Return how many requests have a tag."""
        count = 0
        for hctx in self.q.hctxs:
            tags = hctx.tags if hctx.sched_tags is None else hctx.sched_tags
            count += int(tags.in_use())
        return count

    def frozen(self) -> LoopDriver:
        """Return the driver for a change, which may come only when nothing is in flight; ENXIO when it is not bound.

        Kernel: blk_mq_freeze_queue(), block/blk-mq.c, v6.12.
        """
        if self.driver.state != STATE_BOUND:
            raise self.error("ENXIO", f"is {self.state}")
        assert self.in_flight() == 0, f"{self.name} is changed with {self.in_flight()} requests in flight"
        return self.driver

    # -- bound and unbound

    def take(self, config: LoopConfig, backing: Backing) -> int:
        """Bind to a file; return the size in sectors.

        Kernel: loop_configure(), drivers/block/loop.c, v6.12.
        """
        config.check()
        driver = self.driver
        if driver.state != STATE_UNBOUND:
            raise self.error("EBUSY", f"is {self.state}")
        if backing.lower_queue_name() == self.name:
            raise self.error("EBADF", "its file is on the device itself")
        is_read_only = config.read_only or backing.is_read_only
        block = choose_block_bytes(backing, config.block_bytes, config.direct_io)
        self.config = config
        self.backing = backing
        driver.configure(config, backing)
        driver.is_read_only = is_read_only
        driver.offset_bytes = config.offset_bytes
        update_limits(self.limits, backing, block, is_read_only)
        self.update_direct(config.direct_io)
        if is_read_only and not config.read_only:
            self.note("read-only, as its file is")
        if driver.policy > POLICY_PER_COMMAND:
            if not driver.is_direct:
                self.note(f"{config.policy} has no effect: the device is buffered, and workers do all")
            elif not backing.can_nowait and not driver.tries_any_file and driver.policy != POLICY_RFC_EXACT:
                self.note(f"{config.policy} has no effect: {backing.kind} has no FMODE_NOWAIT, and workers do all")
        driver.state = STATE_BOUND
        return size_sectors(int(backing.size_bytes()), config.offset_bytes, config.sizelimit_bytes)

    def note(self, text: str) -> None:
        """Keep a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def update_direct(self, is_wanted: bool) -> None:
        """Take direct I/O as wanted, or leave it off without an error when it cannot be, as the kernel does.

        Kernel: loop_update_dio(), drivers/block/loop.c, v6.12.y.
        """
        driver = self.driver
        why = ""
        if is_wanted:
            backing = self.backing
            assert backing is not None
            why = why_not_direct(backing, int(self.limits.logical_block_bytes), int(driver.offset_bytes))
            if why:
                self.note(f"direct I/O is off although it was asked for: {why}")
        driver.is_direct = is_wanted and not why

    def order_bios(self) -> None:
        """Say where bios go that inline I/O submits to the device below."""
        driver = self.driver
        is_inline = POLICY_PER_COMMAND < driver.policy < POLICY_RFC_EXACT
        self.q.lower_first = is_inline and not driver.compat.lower_bios_last

    def configure(self, config: LoopConfig, backing: Backing) -> None:
        """Bind an unbound device; the number of hardware queues and the depth stay as they were made."""
        if self.driver.state in (STATE_RUNDOWN, STATE_DELETING):
            raise self.error("ENXIO", f"is {self.state}")
        self.q.capacity_sectors = self.take(config, backing)
        self.order_bios()

    def clear(self) -> None:
        """Unbind, or do so when the last user has closed it (losetup -d).

        Kernel: loop_clr_fd(), drivers/block/loop.c, v6.12.
        """
        driver = self.driver
        if driver.state != STATE_BOUND:
            raise self.error("ENXIO", f"is {self.state}")
        self.config.autoclear = True
        if self.nr_openers <= 1:
            driver.state = STATE_RUNDOWN
            if self.nr_openers == 0:
                self.unbind()

    def open(self) -> None:
        """Count a user; ENXIO when the device goes."""
        if self.driver.state in (STATE_RUNDOWN, STATE_DELETING):
            raise self.error("ENXIO", f"is {self.state}")
        self.nr_openers += 1

    def release(self) -> None:
        """Count a user out; the last one may end the binding.

        Kernel: lo_release(), drivers/block/loop.c, v6.12.
        """
        self.nr_openers -= 1
        assert self.nr_openers >= 0, f"{self.name} is closed more often than opened"
        if self.nr_openers == 0:
            if self.driver.state == STATE_BOUND and self.config.autoclear:
                self.driver.state = STATE_RUNDOWN
            if self.driver.state == STATE_RUNDOWN:
                self.unbind()

    def unbind(self) -> None:
        """Give up the file; nothing is in flight.

        Kernel: __loop_clr_fd(), drivers/block/loop.c, v6.12.
        """
        assert self.in_flight() == 0, f"{self.name} is unbound with requests in flight"
        driver = self.driver
        driver.idle_workers.stop()
        driver.backing = None
        self.backing = None
        driver.is_direct = False
        driver.is_read_only = False
        driver.offset_bytes = 0
        driver.nr_blocking_writes = 0
        self.q.capacity_sectors = 0
        self.notes = []
        driver.state = STATE_UNBOUND

    # -- changes

    def set_capacity(self) -> None:
        """Read the file's size anew (LOOP_SET_CAPACITY)."""
        if self.driver.state != STATE_BOUND:
            raise self.error("ENXIO", f"is {self.state}")
        backing = self.backing
        assert backing is not None
        config = self.config
        self.q.capacity_sectors = size_sectors(int(backing.size_bytes()), config.offset_bytes, config.sizelimit_bytes)

    def set_status(
        self, *, offset_bytes: int, sizelimit_bytes: int, autoclear: bool = False, partscan: bool = False
    ) -> None:
        """Set offset, limit and flags (LOOP_SET_STATUS64); the scan of partitions can be asked for, not taken back.

        Kernel: loop_set_status(), drivers/block/loop.c, v6.12.
        """
        driver = self.frozen()
        config = self.config
        wanted = LoopConfig()
        wanted.offset_bytes = offset_bytes
        wanted.sizelimit_bytes = sizelimit_bytes
        wanted.check()
        has_changed = offset_bytes != config.offset_bytes or sizelimit_bytes != config.sizelimit_bytes
        config.offset_bytes = offset_bytes
        config.sizelimit_bytes = sizelimit_bytes
        config.autoclear = autoclear
        config.partscan = config.partscan or partscan
        driver.offset_bytes = offset_bytes
        self.update_direct(driver.is_direct)
        if has_changed:
            self.set_capacity()

    def set_direct_io(self, is_on: bool) -> None:
        """Switch direct I/O (LOOP_SET_DIRECT_IO): EINVAL when it cannot be."""
        driver = self.frozen()
        backing = self.backing
        assert backing is not None
        if is_on:
            why = why_not_direct(backing, int(self.limits.logical_block_bytes), int(driver.offset_bytes))
            if why:
                raise self.error("EINVAL", why)
        driver.is_direct = is_on

    def set_block_size(self, block_bytes: int) -> None:
        """Set the logical block size (LOOP_SET_BLOCK_SIZE); direct I/O may go off by that, without an error."""
        driver = self.frozen()
        backing = self.backing
        assert backing is not None
        block = choose_block_bytes(backing, block_bytes, driver.is_direct)
        update_limits(self.limits, backing, block, driver.is_read_only)
        self.update_direct(driver.is_direct)

    def change_fd(self, backing: Backing) -> None:
        """Put another file of the same size behind a read-only device (LOOP_CHANGE_FD), else EINVAL.

        Kernel: loop_change_fd(), drivers/block/loop.c, v6.12.
        """
        driver = self.frozen()
        before = self.backing
        assert before is not None
        if not driver.is_read_only:
            raise self.error("EINVAL", "the file of a device that is not read-only cannot be changed")
        if backing.lower_queue_name() == self.name:
            raise self.error("EBADF", "its file is on the device itself")
        if backing.size_bytes() != before.size_bytes():
            raise self.error("EINVAL", f"the other file has {backing.size_bytes()} bytes, not {before.size_bytes()}")
        self.backing = backing
        driver.backing = backing
        driver.is_frozen_by_file = not backing.is_block_device
        self.update_direct(driver.is_direct)
