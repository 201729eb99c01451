"""What a stack file says, read and checked: files, loop devices, mounts, hogs, and all of one variant."""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass, field

from blktwin.drivers.loop.config import LoopConfig
from blktwin.lab.cgroups import CgroupFile
from blktwin.lab.toml_file import TomlFile
from blktwin.lab.toml_values import Place
from blktwin.sim.devices.spec import DeviceSpec
from blktwin.sim.files.params import FileParams
from blktwin.sim.hosts import Host

LOOP_PATH = re.compile(r"/dev/loop[0-9]+")
LOOP_NAME = re.compile(r"loop(0|[1-9][0-9]{0,5})")


@dataclass(slots=True)
class FileSpec:
    """A regular file; on: the device below, "" for the first one. at: where it stands in the stack file."""

    path: str
    on: str
    params: FileParams
    at: Place


@dataclass(slots=True)
class LoopSpec:
    """A loop device; backing: the path of a file, a device or another loop device. 0 or "": the kernel's default."""

    name: str
    backing: str
    config: LoopConfig
    at: Place
    scheduler: str = ""
    nr_requests: int = 0
    nomerges: int = 0
    rq_affinity: int = 1

    @property
    def path(self) -> str:
        """Its path below /dev."""
        return f"/dev/{self.name}"

    @property
    def number(self) -> int:
        """Its minor number."""
        return int(self.name.removeprefix("loop"))


@dataclass(slots=True)
class MountSpec:
    """fio's files below path lie on device."""

    path: str
    device: str
    at: Place

    def holds(self, path: str) -> bool:
        """Say whether a file lies below it."""
        return posixpath.normpath(path).startswith(self.path.rstrip("/") + "/")


@dataclass(slots=True)
class HogSpec:
    """Tasks that never sleep, count of them on each of the CPUs named (none: wherever there is room)."""

    name: str
    at: Place
    cpus: list[int] = field(default_factory=list)
    nice: int = 0
    cgroup: str = "/"
    count: int = 1


@dataclass(slots=True)
class StackFile:
    """One variant of a stack file, read and checked; "" and empty lists: not said."""

    toml: TomlFile
    variant: str = ""
    title: str = ""
    caveats: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    """Paths of job files, as this process can open them."""
    env: dict[str, str] = field(default_factory=dict)
    """What ${NAME} stands for in the job files."""
    runtime: str = ""
    rules: str = ""
    scheduler: str = ""
    tunables: list[tuple[str, str]] = field(default_factory=list)
    host: Host | None = None
    devices: list[DeviceSpec] = field(default_factory=list)
    files: dict[str, FileSpec] = field(default_factory=dict)
    loops: dict[str, LoopSpec] = field(default_factory=dict)
    mounts: dict[str, MountSpec] = field(default_factory=dict)
    hogs: list[HogSpec] = field(default_factory=list)
    cgroups: CgroupFile | None = None
    cgroup_per_job: str = ""
    expect: dict[str, dict[str, object]] = field(default_factory=dict)
    """[expect.VARIANT], as scenario_expect.py reads it."""

    def sources(self, path: str) -> list[str]:
        """Return the files that it was read from; path: that of --stack, "" for none."""
        return [path, self.cgroups.file if self.cgroups else ""]

    def beside(self, path: str) -> str:
        """Return the path of a file that is named in this one: relative to it."""
        return os.path.join(os.path.dirname(self.toml.file), path)


def in_order(files: dict[str, FileSpec], loops: dict[str, LoopSpec]) -> list[FileSpec | LoopSpec]:
    """Return files and loop devices so that each comes after what it lies on; ConfigError for a circle."""
    nodes: dict[str, FileSpec | LoopSpec] = {**files, **{loop.path: loop for loop in loops.values()}}
    done: list[FileSpec | LoopSpec] = []
    settled: set[str] = set()
    for path in nodes:
        chain: list[str] = []
        here = path
        while here in nodes and here not in settled:
            if here in chain:
                first = nodes[here]
                circle = " -> ".join([*chain[chain.index(here) :], here])
                key = "backing-file" if isinstance(first, LoopSpec) else "on"
                raise first.at.error(f"lies on itself: {circle}", key)
            chain.append(here)
            here = below(nodes[here])
        for one in reversed(chain):
            settled.add(one)
            done.append(nodes[one])
    return done


def below(node: FileSpec | LoopSpec) -> str:
    """Return the path of what a file or a loop device lies on."""
    return node.backing if isinstance(node, LoopSpec) else node.on
