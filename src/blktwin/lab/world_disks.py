"""The disks of a world: a simulated device or a loop device, each with its queue."""

from __future__ import annotations

from blktwin.block.bdev import BlockDevice
from blktwin.block.queue import RequestQueue
from blktwin.drivers.loop.device import LoopDevice
from blktwin.errors import ConfigError
from blktwin.lab.stack_said import LOOP_PATH, LoopSpec
from blktwin.sim.devices.base import SimDevice
from blktwin.sim.devices.latency import Latency
from blktwin.sim.devices.options import Value
from blktwin.sim.devices.spec import DeviceSpec, parse_device


class Disk:
    """A block device; scheduler: its elevator's name."""

    def __init__(self, path: str, q: RequestQueue, scheduler: str) -> None:
        self.path = path
        self.name = path.rpartition("/")[2]
        self.q = q
        self.scheduler = scheduler
        self.bdev = BlockDevice(q)
        self.is_used = False
        """By a job, or by a file or loop device on it."""
        self.used_bytes = 0
        """Taken by regular files, from the start."""

    def kind(self) -> str:
        """Say what it is, in a word or two."""
        raise NotImplementedError

    def about(self) -> dict[str, object]:
        """Return what the result says of it."""
        return {
            "scheduler": self.scheduler,
            "hw_queues": len(self.q.hctxs),
            "queue_depth": int(self.q.queue_depth),
            "nr_requests": int(self.q.nr_requests),
            "requests": int(self.q.nr_completed),
            "merges": [int(n) for n in self.q.stats.merges][:3],
        }


class DeviceDisk(Disk):
    """A simulated device."""

    def __init__(self, spec: DeviceSpec, device: SimDevice, q: RequestQueue, scheduler: str) -> None:
        super().__init__(spec.path, q, scheduler)
        self.spec = spec
        self.device = device

    def kind(self) -> str:
        """Return its profile's name."""
        return self.spec.profile.name

    def about(self) -> dict[str, object]:
        """Return its profile and what was said beyond that, then its queue."""
        given = {key: text_of(value) for key, value in self.spec.given.items()}
        return {"profile": self.spec.profile.name, "given": given, **super().about()}


class LoopDisk(Disk):
    """A loop device."""

    def __init__(self, spec: LoopSpec, loop: LoopDevice, scheduler: str) -> None:
        super().__init__(spec.path, loop.q, scheduler)
        self.spec = spec
        self.loop = loop

    def kind(self) -> str:
        """Return its policy, and on what it runs."""
        mode = "direct" if self.loop.is_direct else "buffered"
        return f"loop on {self.spec.backing} ({self.spec.config.policy}, {mode})"

    def about(self) -> dict[str, object]:
        """Return what `losetup --list` shows, effective values, then policy and queue."""
        config = self.spec.config
        return {
            "sizelimit": int(config.sizelimit_bytes),
            "offset": int(config.offset_bytes),
            "autoclear": bool(config.autoclear),
            "ro": bool(self.loop.driver.is_read_only),
            "back-file": self.spec.backing,
            "dio": bool(self.loop.is_direct),
            "log-sec": int(self.q.limits.logical_block_bytes),
            "policy": config.policy,
            "kernel_compat": config.compat.enabled(),
            "notes": list(self.loop.notes),
            **super().about(),
        }


def spec_of_name(path: str) -> DeviceSpec:
    """Return the device that a path's name stands for; ConfigError without a place when it stands for none."""
    if LOOP_PATH.fullmatch(path):
        raise ConfigError(f"{path} is a loop device, which the file of --stack makes: [loop.{path[5:]}]")
    if "=" in path or "," in path:
        raise ConfigError(f"{path} is not the name of a disk: profile and keys belong to --device")
    return parse_device(path)


def text_of(value: Value) -> str:
    """Return a device option's value as text."""
    return value.text if isinstance(value, Latency) else str(value)
