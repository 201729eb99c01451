"""Builds what a Stack and a JobPlan describe: machine, queues, devices, files, threads."""

from __future__ import annotations

from blktwin.block.bdev import BlockDevice
from blktwin.block.cgroup import Cgroup
from blktwin.block.machine import Machine
from blktwin.block.queue import RequestQueue
from blktwin.drivers.hardware import HardwareDriver
from blktwin.errors import ConfigError, UsageError
from blktwin.fio.engine_aio import AsyncThread
from blktwin.fio.engine_null import NullQueueThread, NullThread
from blktwin.fio.engine_posix import PosixAioThread
from blktwin.fio.engines import SyncThread
from blktwin.fio.job import IoThread, ThreadWatcher
from blktwin.fio.pattern import IoPattern
from blktwin.fio.spec import JobPlan, JobSpec
from blktwin.fio.unit import FioFile
from blktwin.lab.cgroup_run import CgroupControl
from blktwin.lab.interrupt import Interrupt
from blktwin.lab.stack import Stack, make_elevator, set_tunable
from blktwin.lab.world_disks import DeviceDisk, Disk, spec_of_name
from blktwin.lab.world_hogs import start_hogs
from blktwin.lab.world_loops import Loops
from blktwin.sim.devices.build import build_device, default_scheduler
from blktwin.sim.devices.spec import DeviceSpec, parse_device
from blktwin.sim.faults import Faults
from blktwin.sim.hints import near
from blktwin.sim.hog import Hog
from blktwin.sim.machine import SimMachine
from blktwin.sim.trace import CostTrace
from blktwin.units import GIB

FIRST_PID = 1000
DISK_MAJOR = 259
MAP_BLOCKS_MAX = 1 << 36
OFFSET_MAX = 1 << 62
LENGTHS_MAX = 1024
NULL_FILE_BYTES = 1024 * GIB
DEFAULT_FILE_DEVICE = "/dev/nvme0n1"


class World:
    """A machine with everything on it, ready to run; threads are in fio's order."""

    def __init__(
        self, plan: JobPlan, stack: Stack, trace: CostTrace | None = None, interrupt: Interrupt | None = None
    ) -> None:
        self.plan = plan
        self.stack = stack
        self.interrupt = interrupt or Interrupt()
        self.length_of: dict[str, int] = {}
        """How long each regular file must be, for all its users."""
        self.notes: list[str] = []
        self.laid_out: set[str] = set()
        """Devices with files of jobs on them."""
        costs = stack.host.cost_table()
        self.trace = CostTrace(costs) if trace is None else trace
        nr_cpus = stack.cpus or stack.host.cpus
        key, problem = stack.host.spec.problem(nr_cpus)
        if problem:
            raise UsageError(f"the host {stack.host.name} does not fit: {key}: {problem}", key="--cpus")
        self.machine = SimMachine(
            self.trace,
            nr_cpus=nr_cpus,
            hz=stack.host.hz,
            costs=costs,
            faults=Faults(stack.seed, stack.faults),
            spec=stack.host.spec,
        )
        if not stack.cpus:
            self.machine.cpus_per_cache = stack.host.cache_cpus
        self.trace.bind(self.machine)
        self.disks: dict[str, Disk] = {}
        self.files: dict[str, tuple[Disk, int, int]] = {}
        """Regular files: disk, where they begin on it, and how long they are (bytes)."""
        self.threads: list[IoThread] = []
        self.cgroups = CgroupControl(self.machine, stack.cgroups, plan.jobs, stack.cgroup, stack.cgroup_per_job)
        for spec in stack.devices:
            if spec.path in self.disks:
                raise UsageError("given twice", key=f"--device {spec.path}")
            self.add_disk(spec)
        self.loops = Loops(self)
        self.hogs: list[Hog] = []

    def build_threads(self, watcher: ThreadWatcher) -> None:
        """Make every thread of the plan."""
        opened = [[self.open_file(spec, index) for index in range(len(spec.filenames))] for spec in self.plan.jobs]
        self.cgroups.prepare({path: disk.q.dev for path, disk in self.disks.items()})
        for number, (spec, files) in enumerate(zip(self.plan.jobs, opened, strict=True), 1):
            self.interrupt.check()
            pattern = IoPattern(spec, files, number, self.stack.seed * 0x9E3779B97F4A7C15 + number)
            cgroup = self.cgroups.cgroup_of(spec)
            thread = make_thread(self.machine, spec, pattern, cgroup, watcher, number)
            thread.cpu = (number - 1) % self.machine.nr_cpus
            thread.nice = spec.nice
            self.threads.append(thread)
        self.cgroups.begin(self.threads)
        self.hogs = start_hogs(self.machine, self.stack.hogs)
        for path, text in self.stack.tunables:
            self.tune(path, text)

    def tune(self, path: str, text: str) -> None:
        """Write a tunable of one device, or of every device whose scheduler has it; none at all is an error."""
        device, has_device, _ = path.rpartition(".iosched.")
        disks = list(self.disks.values())
        if has_device:
            disks = [disk for disk in disks if disk.name == device]
            if not disks:
                names = [disk.name for disk in self.disks.values()]
                hint = near(device, names) or f"; there are {', '.join(names)}"
                raise UsageError(f"no device '{device}'{hint}", key=f"--set {path}")
        name = path.rpartition(".")[2]
        elevators = [disk.q.elevator for disk in disks if disk.q.elevator is not None]
        having = [elevator for elevator in elevators if name in elevator.tunables]
        for elevator in having or elevators[:1]:
            set_tunable(elevator, path, text)
        if not elevators:
            set_tunable(None, path, text)

    # -- disks

    def add_disk(self, spec: DeviceSpec) -> DeviceDisk:
        """Build a device and its queue with its scheduler."""
        device, limits, nr_queues, depth, capacity = build_device(self.machine, spec, self.stack.seed)
        own = f"--device {spec.path} scheduler"
        name, key, file, line = self.scheduler_of(spec.path, spec.scheduler, own, default_scheduler(nr_queues))
        elevator = make_elevator(name, key, file, line)
        q = RequestQueue(
            self.machine,
            self.stack.rules,
            HardwareDriver(device),
            limits,
            name=spec.name,
            capacity_sectors=capacity,
            nr_hw_queues=nr_queues,
            queue_depth=depth,
            elevator=elevator,
            nr_requests=spec.number("nr_requests"),
        )
        q.dev = (DISK_MAJOR, len(self.disks))
        q.nomerges = spec.number("nomerges")
        q.rq_affinity = spec.number("rq_affinity", 1)
        disk = DeviceDisk(spec, device, q, name)
        self.disks[spec.path] = disk
        return disk

    def scheduler_of(self, path: str, own: str, key: str, default: str) -> tuple[str, str, str, int]:
        """Return the scheduler's name and who asked for it: --scheduler, the device (own, at key), a job, or nobody."""
        if self.stack.scheduler:
            return self.stack.scheduler, "--scheduler", "", 0
        if own:
            return own, key, "", 0
        asking = [job for job in self.plan.jobs if job.ioscheduler and path in job.filenames]
        if not asking:
            return default, "", "", 0
        first = asking[0]
        for job in asking:
            if job.ioscheduler != first.ioscheduler:
                message = (
                    f"{path} has one scheduler: {job.ioscheduler} here, but {first.ioscheduler} for "
                    f"{first.name} ({first.file}:{first.line}); --scheduler overrides both"
                )
                raise ConfigError(message, file=job.file, line=job.line, key=f"{job.name}: ioscheduler")
        return first.ioscheduler, "ioscheduler", first.file, first.line

    def disk_at(self, path: str, job: JobSpec) -> Disk:
        """Return the disk at a /dev path of a job, made from its name's default profile if --device names none."""
        disk = self.disks.get(path)
        if disk is None:
            try:
                spec = spec_of_name(path)
            except ConfigError as error:
                raise ConfigError(error.message, file=job.file, line=job.line, key=job.name) from None
            disk = self.add_disk(spec)
        disk.is_used = True
        return disk

    def describe(self) -> list[str]:
        """Say in a line what each disk is, and which was given for nothing."""
        lines = []
        given = {spec.path for spec in self.stack.devices}
        for path, disk in self.disks.items():
            if not disk.is_used and path in given:
                lines.append(f"{path}: given with --device, used by no job")
                continue
            origin = "" if path in given else " by its name"
            if isinstance(disk, DeviceDisk):
                lines.append(f"{path}: {disk.kind()}{origin}, {disk.scheduler}, rules {self.stack.rules.name}")
        lines += self.loops.describe()
        return lines + self.cgroups.describe(disk.scheduler for disk in self.disks.values())

    # -- files

    def open_file(self, spec: JobSpec, index: int) -> FioFile:
        """Return a thread's view of a file: a device, a regular file laid out on a disk, or nothing (null engine)."""
        self.interrupt.check()
        name = spec.filenames[index]
        if spec.ioengine == "null":
            real = file_length(spec, index) or NULL_FILE_BYTES
            return self.view(spec, index, None, real, 0)
        if name.startswith("/dev/"):
            bdev = self.disk_at(name, spec).bdev
            return self.view(spec, index, bdev, int(bdev.size_bytes), 0)
        disk, base, length = self.lay_out(spec, name)
        return self.view(spec, index, disk.bdev, length, base)

    def lay_out(self, spec: JobSpec, name: str) -> tuple[Disk, int, int]:
        """Place a regular file on its disk; the second user of a name gets the same place."""
        known = self.files.get(name) or self.loops.region_of(name)
        if known is not None:
            return known
        if not self.length_of:
            self.measure_files()
        length = self.length_of[name]
        if length <= 0:
            raise ConfigError(
                f"{name} is not a device, so the job needs size=", file=spec.file, line=spec.line, key=spec.name
            )
        disk = self.loops.mounted_at(name) or self.first_disk()
        disk.is_used = True
        block = 4096
        length = (length + block - 1) // block * block
        if disk.used_bytes + length > disk.bdev.size_bytes:
            hint = f"give a larger one with --device {disk.path}=PROFILE,size=..."
            if not isinstance(disk, DeviceDisk):
                hint = f"it has {disk.bdev.size_bytes} bytes"
            raise ConfigError(
                f"{name} ({length} bytes) does not fit on {disk.path}: {hint}",
                file=spec.file,
                line=spec.line,
                key=spec.name,
            )
        place = (disk, disk.used_bytes, length)
        disk.used_bytes += length
        self.files[name] = place
        if disk.path not in self.laid_out:
            self.laid_out.add(disk.path)
            self.notes.append(f"files such as {name} are laid out on {disk.path}; no file system is modelled")
        return place

    def first_disk(self) -> Disk:
        """Return the disk of files that nothing places elsewhere."""
        for disk in self.disks.values():
            if isinstance(disk, DeviceDisk):
                return disk
        return self.add_disk(parse_device(DEFAULT_FILE_DEVICE))

    def measure_files(self) -> None:
        """Work out length_of."""
        for job in self.plan.jobs:
            self.interrupt.check()
            for index, name in enumerate(job.filenames):
                self.length_of[name] = max(self.length_of.get(name, 0), file_length(job, index))

    def view(self, spec: JobSpec, index: int, bdev: BlockDevice | None, real: int, base: int) -> FioFile:
        """Return the region of a file that one thread uses, as fio computes it."""
        name = spec.filenames[index]
        align = spec.offset_align_bytes or min(bs for bs in spec.bs_min if bs > 0)
        offset = spec.offset_bytes
        if spec.offset_percent:
            offset = real * spec.offset_percent // 100
            offset = -(-offset // align) * align
        step = spec.offset_increment_bytes or real * spec.offset_increment_percent // 100
        offset += step * spec.clone_index
        if offset >= real:
            raise ConfigError(
                f"offset {offset} is beyond the end of {name} ({real} bytes)",
                file=spec.file,
                line=spec.line,
                key=spec.name,
            )
        size = share_of(spec, index)
        if spec.size_percent:
            size = real * spec.size_percent // 100
            size -= size % smallest_block(spec)
        room = real - offset
        region = min(size, room) if size else room
        if bdev is not None:
            check_alignment(spec, int(bdev.q.limits.logical_block_bytes), offset)
        if region < smallest_block(spec):
            raise ConfigError(
                f"{name} has {region} bytes from offset {offset} on, less than one block",
                file=spec.file,
                line=spec.line,
                key=spec.name,
            )
        check_map(spec, name, region)
        check_lengths(spec, name, region)
        return FioFile(name, bdev, real, offset, region, base)


def smallest_block(spec: JobSpec) -> int:
    """Return the smallest block of any direction that the job uses."""
    return min(bs for bs, used in zip(spec.bs_min, spec.directions(), strict=True) if used)


def check_map(spec: JobSpec, name: str, region: int) -> None:
    """Refuse a random map that would not fit into memory, and offsets that would not fit into 63 bits."""
    if region // min(spec.bs_min) * max(spec.blockalign) > OFFSET_MAX:
        message = f"{max(spec.blockalign)} is too large for {name} ({region} bytes)"
        raise ConfigError(message, file=spec.file, line=spec.line, key=f"{spec.name}: blockalign")
    if spec.is_random and not spec.norandommap and region // smallest_block(spec) > MAP_BLOCKS_MAX:
        raise ConfigError(
            f"the random map of {name} ({region} bytes) is too large: add norandommap",
            file=spec.file,
            line=spec.line,
            key=spec.name,
        )


def check_lengths(spec: JobSpec, name: str, region: int) -> None:
    """Refuse a range of lengths of which hardly any fits: fio draws until one does."""
    for low, high, used in zip(spec.bs_min, spec.bs_max, spec.directions(), strict=True):
        if used and low < high and high > region * LENGTHS_MAX:
            message = f"{high} is more than {LENGTHS_MAX} times {name} ({region} bytes): hardly any length would fit"
            raise ConfigError(message, file=spec.file, line=spec.line, key=f"{spec.name}: bsrange")


def check_alignment(spec: JobSpec, block: int, offset: int) -> None:
    """Stop direct I/O that is not in whole blocks of the device: fio would run it into EINVAL."""
    if not spec.direct:
        return
    sizes = {"offset": [offset], "rw": [spec.rw_seq_add_bytes], "blockalign": list(spec.blockalign)}
    split = [size for pairs in spec.bssplit for size, _ in pairs]
    used = [(low, high) for low, high, has in zip(spec.bs_min, spec.bs_max, spec.directions(), strict=True) if has]
    sizes["bs"] = [size for pair in used for size in pair] + split
    for key, values in sizes.items():
        for value in values:
            if value % block:
                raise ConfigError(
                    f"{value} bytes are no multiple of the device's blocks of {block}: direct I/O would fail (EINVAL)",
                    file=spec.file,
                    line=spec.line,
                    key=f"{spec.name}: {key}",
                )
    if spec.bs_unaligned and any(low != high for low, high in used):
        message = "lengths at random would be no multiples of the device's blocks: direct I/O would fail (EINVAL)"
        raise ConfigError(message, file=spec.file, line=spec.line, key=f"{spec.name}: bs_unaligned")


def share_of(spec: JobSpec, index: int) -> int:
    """Return one file's part of size=; the first files get what does not divide, in whole blocks. 0: no size=."""
    nr_files = len(spec.filenames)
    size = spec.size_bytes // nr_files
    block = smallest_block(spec)
    return size + block if index < (spec.size_bytes - size * nr_files) // block else size


def file_length(spec: JobSpec, index: int) -> int:
    """Return how long a regular file must be for one thread, as fio makes it; 0 if the job does not say."""
    size = spec.filesize_bytes or share_of(spec, index)
    return size + spec.offset_bytes + spec.offset_increment_bytes * spec.clone_index if size else 0


def make_thread(
    machine: Machine, spec: JobSpec, pattern: IoPattern, cgroup: Cgroup, watcher: ThreadWatcher, number: int
) -> IoThread:
    """Return the thread of a job's engine."""
    pid = FIRST_PID + number
    engine = spec.ioengine
    if engine == "null":
        kind = NullThread if spec.iodepth == 1 else NullQueueThread
        idle = kind(machine, spec, pattern, cgroup, watcher, number, pid)
        idle.prepare()
        return idle
    if engine in ("libaio", "io_uring"):
        asynchronous = AsyncThread(machine, spec, pattern, cgroup, watcher, number, pid)
        asynchronous.prepare()
        return asynchronous
    if engine == "posixaio":
        helped = PosixAioThread(machine, spec, pattern, cgroup, watcher, number, pid)
        helped.prepare()
        return helped
    thread = SyncThread(machine, spec, pattern, cgroup, watcher, number, pid)
    thread.prepare()
    return thread
