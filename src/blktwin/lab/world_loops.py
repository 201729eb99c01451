"""Builds the files and loop devices of a world, each after what it lies on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blktwin.drivers.backing import Backing
from blktwin.drivers.loop.device import LoopDevice
from blktwin.errors import ConfigError, UsageError
from blktwin.lab.stack import make_elevator
from blktwin.lab.stack_said import FileSpec, LoopSpec, in_order
from blktwin.lab.toml_values import Place, place_text_of
from blktwin.lab.world_disks import Disk, LoopDisk, spec_of_name
from blktwin.sim.files.bdev_file import BdevFile
from blktwin.sim.files.file import SimFile

if TYPE_CHECKING:
    from blktwin.lab.world import World

LOOP_MAJOR = 7


class Loops:
    """The files and loop devices of one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.files: dict[str, tuple[FileSpec, SimFile, Disk | None, int]] = {}
        """Backing files by path: what was said, the file, its disk, and where it begins there (bytes)."""
        self.disks: list[LoopDisk] = []
        self.notes: list[str] = []
        stack = world.stack
        for node in in_order(stack.files, stack.loops):
            world.interrupt.check()
            if isinstance(node, FileSpec):
                self.add_file(node)
            else:
                self.add_loop(node)
        for mount in stack.mounts.values():
            self.disk_at(mount.device, mount.at, "device")

    def disk_at(self, path: str, at: Place, key: str) -> Disk:
        """Return the disk at a path that the stack file names, made from its name if no table has it."""
        disk = self.world.disks.get(path)
        if disk is None:
            try:
                spec = spec_of_name(path)
            except ConfigError as error:
                raise at.error(error.message, key) from None
            disk = self.world.add_disk(spec)
        disk.is_used = True
        return disk

    def add_file(self, spec: FileSpec) -> None:
        """Build a file on its device."""
        if spec.params.region_bytes() == 0:
            self.files[spec.path] = (spec, SimFile(self.world.machine, None, 0, spec.params), None, 0)
            return
        disk = self.disk_at(spec.on, spec.at, "on") if spec.on else self.world.first_disk()
        disk.is_used = True
        # Files begin and end at whole blocks, whatever blocks the disk has.
        length = spec.params.region_bytes()
        if disk.used_bytes + length > disk.bdev.size_bytes:
            room = int(disk.bdev.size_bytes) - disk.used_bytes
            raise spec.at.error(f"{length} bytes do not fit on {disk.path}, which has {room} left", "size")
        base = disk.used_bytes
        disk.used_bytes += length
        file = SimFile(self.world.machine, disk.bdev, base, spec.params)
        self.files[spec.path] = (spec, file, disk, base)

    def add_loop(self, spec: LoopSpec) -> None:
        """Build a loop device on its file or device."""
        world = self.world
        if spec.path in world.disks:
            raise UsageError(f"is a loop device of {place_text_of(spec.at)}", key=f"--device {spec.path}")
        name, key, file, line = world.scheduler_of(spec.path, spec.scheduler, f"{spec.name}.scheduler", "none")
        elevator = make_elevator(name, key, file, line)
        try:
            loop = LoopDevice(
                world.machine,
                world.stack.rules,
                spec.name,
                spec.config,
                self.backing_of(spec),
                elevator=elevator,
                nr_requests=spec.nr_requests,
            )
        except ConfigError as error:
            raise spec.at.error(error.message, error.key.rpartition(".")[2]) from None
        loop.q.dev = (LOOP_MAJOR, spec.number)
        loop.q.nomerges = spec.nomerges
        loop.q.rq_affinity = spec.rq_affinity
        disk = LoopDisk(spec, loop, name)
        world.disks[spec.path] = disk
        self.disks.append(disk)

    def backing_of(self, spec: LoopSpec) -> Backing:
        """Return the file or device that a loop device lies on."""
        if spec.backing in self.files:
            file = self.files[spec.backing][1]
            file.name = spec.backing
            return file
        disk = self.disk_at(spec.backing, spec.at, "backing-file")
        return BdevFile(self.world.machine, disk.bdev)

    # -- what jobs use of it

    def mounted_at(self, path: str) -> Disk | None:
        """Return the disk on which a job's file lies because of a mount: that of the longest path."""
        mounts = [mount for mount in self.world.stack.mounts.values() if mount.holds(path)]
        if not mounts:
            return None
        return self.world.disks[max(mounts, key=lambda mount: len(mount.path)).device]

    def region_of(self, path: str) -> tuple[Disk, int, int] | None:
        """Return disk, begin and length of a backing file that a job uses itself."""
        found = self.files.get(path)
        if found is None:
            return None
        _, file, disk, base = found
        return None if disk is None else (disk, base, int(file.size_bytes()))

    # -- what the result says

    def describe(self) -> list[str]:
        """Say in a line what each loop device is, and what losetup would not tell."""
        lines = []
        for disk in self.disks:
            unused = "" if disk.is_used else f", used by no job ({place_text_of(disk.spec.at)})"
            lines.append(f"{disk.path}: {disk.kind()}, {disk.scheduler}{unused}")
            lines += [f"{disk.name}: {note}" for note in disk.loop.notes]
        return lines

    def provenance(self) -> dict[str, object]:
        """Return the result's "loops", nothing if there are none."""
        return {"loops": {disk.name: disk.about() for disk in self.disks}} if self.disks else {}
