"""Makes the device that a spec describes, and what the queue in front of it must know."""

from __future__ import annotations

import zlib

from blktwin.block.limits import QueueLimits
from blktwin.rng import Rng
from blktwin.sim.devices.base import SimDevice
from blktwin.sim.devices.hdd import HddDevice, HddParams
from blktwin.sim.devices.latency import Latency, fixed
from blktwin.sim.devices.null import NullDevice
from blktwin.sim.devices.nvme import NvmeDevice, NvmeParams
from blktwin.sim.devices.spec import DeviceSpec
from blktwin.sim.machine import SimMachine
from blktwin.units import SECTOR_BYTES, SECTOR_SHIFT


def build_device(machine: SimMachine, spec: DeviceSpec, seed: int) -> tuple[SimDevice, QueueLimits, int, int, int]:
    """Return the device, its limits, the hardware queues (at most one a CPU), their depth, the capacity in sectors.

    Each device draws from its own stream of seed, chosen by its path: other devices do not change what it does.
    """
    nr_queues = min(spec.number("queues", 1), machine.nr_cpus)
    depth = spec.number("depth", 64)
    limits = make_limits(spec)
    block = int(limits.logical_block_bytes)
    capacity = spec.number("size") // block * block >> SECTOR_SHIFT
    model = spec.profile.model
    device: SimDevice
    if model == "null":
        device = NullDevice(machine, nr_queues, depth, int(latency(spec, "latency").fixed_ns))
    elif model == "hdd":
        device = HddDevice(machine, nr_queues, depth, hdd_params(spec), capacity)
    else:
        device = NvmeDevice(machine, nr_queues, depth, nvme_params(spec), device_rng(spec, seed))
    return device, limits, nr_queues, depth, capacity


def device_rng(spec: DeviceSpec, seed: int) -> Rng:
    """Return the device's own random numbers."""
    return Rng(seed, zlib.crc32(spec.path.encode()))


def default_scheduler(nr_hw_queues: int) -> str:
    """Return the scheduler that the kernel attaches: mq-deadline to a disk with one queue, none to others.

    Kernel: elevator_get_default(), block/elevator.c, v6.12.
    """
    return "mq-deadline" if nr_hw_queues == 1 else "none"


def make_limits(spec: DeviceSpec) -> QueueLimits:
    """Return the queue limits; those of the block layer where the spec has none."""
    limits = QueueLimits()
    limits.logical_block_bytes = spec.number("lbs", 512)
    limits.max_sectors = spec.number("max_sectors_kb", 1280) * 1024 // SECTOR_BYTES
    limits.max_segments = spec.number("max_segments", 128)
    limits.is_rotational = spec.number("rotational", 1 if spec.profile.model == "hdd" else 0) == 1
    limits.has_write_cache = spec.number("write_cache") == 1
    limits.has_fua = spec.number("fua") == 1
    return limits


def latency(spec: DeviceSpec, key: str) -> Latency:
    """Return the distribution at key, 0 if there is none."""
    value = spec.values.get(key)
    return value if isinstance(value, Latency) else fixed(0)


def nvme_params(spec: DeviceSpec) -> NvmeParams:
    """Return a solid-state device's parameters."""
    params = NvmeParams()
    params.overhead_ns = spec.number("overhead")
    params.channels = spec.number("channels")
    params.read = latency(spec, "read")
    params.write = latency(spec, "write")
    params.trim = latency(spec, "trim")
    params.flush = latency(spec, "flush")
    params.read_per_kib_ns = spec.number("read_per_kib")
    params.write_per_kib_ns = spec.number("write_per_kib")
    params.read_bytes_per_s = spec.number("read_mib_s")
    params.write_bytes_per_s = spec.number("write_mib_s")
    params.iops = spec.number("iops")
    params.iops_bytes = spec.number("iops_bytes")
    params.cache_bytes = spec.number("cache")
    params.cache_write = latency(spec, "cache_write")
    params.drain_bytes_per_s = spec.number("drain_mib_s")
    return params


def hdd_params(spec: DeviceSpec) -> HddParams:
    """Return a rotating disk's parameters."""
    params = HddParams()
    params.overhead_ns = spec.number("overhead")
    params.rpm = spec.number("rpm")
    params.seek_min_ns = spec.number("seek_min")
    params.seek_max_ns = spec.number("seek_max")
    params.bytes_per_s = spec.number("mib_s")
    return params
