"""/dev/loop-control: which loop devices there are, adding and removing them, and the search for a free one.

Kernel: loop_control_ioctl() and loop_validate_file(), drivers/block/loop.c, v6.12.
"""

from __future__ import annotations

from blktwin.drivers.backing import Backing
from blktwin.drivers.loop.device import LoopDevice
from blktwin.drivers.loop.driver import STATE_BOUND, STATE_DELETING, STATE_UNBOUND
from blktwin.errors import ConfigError


class LoopControl:
    """The loop devices of one machine by number."""

    def __init__(self) -> None:
        self.devices: dict[int, LoopDevice] = {}

    def add(self, number: int, device: LoopDevice) -> None:
        """Add a device (LOOP_CTL_ADD); EEXIST when the number is taken."""
        if number < 0:
            raise ConfigError(f"EINVAL: loop device {number}")
        if number in self.devices:
            raise ConfigError(f"EEXIST: loop{number} is there already")
        self.devices[number] = device

    def remove(self, number: int) -> None:
        """Remove a device (LOOP_CTL_REMOVE): EINVAL, ENODEV, or EBUSY when it is bound or open."""
        if number < 0:
            raise ConfigError(f"EINVAL: loop device {number}")
        device = self.devices.get(number)
        if device is None:
            raise ConfigError(f"ENODEV: no loop{number}")
        if device.driver.state != STATE_UNBOUND or device.nr_openers > 0:
            raise ConfigError(f"EBUSY: loop{number} is {device.state}, with {device.nr_openers} users")
        device.driver.state = STATE_DELETING
        del self.devices[number]

    def free_number(self) -> int:
        """Return the number of the first unbound device, or of the next one to add (LOOP_CTL_GET_FREE)."""
        for number in sorted(self.devices):
            if self.devices[number].driver.state == STATE_UNBOUND:
                return number
        return max(self.devices, default=-1) + 1

    def validate(self, device: LoopDevice, backing: Backing) -> None:
        """Follow the file down through loop devices: EBADF when it ends at device itself, EINVAL at an unbound one.

        Kernel: loop_validate_file(), drivers/block/loop.c, v6.12.
        """
        name = backing.lower_queue_name()
        for _ in range(len(self.devices) + 1):
            if name == device.name:
                raise ConfigError("EBADF: its file is on the device itself", file=device.name)
            lower = next((other for other in self.devices.values() if other.name == name), None)
            if lower is None:
                return
            below = lower.backing
            if lower.driver.state != STATE_BOUND or below is None:
                raise ConfigError(f"EINVAL: its file is on {name}, which is {lower.state}", file=device.name)
            name = below.lower_queue_name()
