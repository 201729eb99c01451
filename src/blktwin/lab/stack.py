"""The stack under a job as plain data: devices, scheduler, tunables, kernel rules, host, seed.

Everything is checked here, before anything is built; world.py builds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blktwin.block.bfq.scheduler import Bfq
from blktwin.block.deadline import Deadline
from blktwin.block.elevator import Elevator
from blktwin.block.rules import DEFAULT_RULES, PRESET_NAMES, Rules, preset
from blktwin.errors import UsageError
from blktwin.lab.cgroups import CgroupFile
from blktwin.lab.stack_said import FileSpec, HogSpec, LoopSpec, MountSpec
from blktwin.sim.devices.spec import DeviceSpec
from blktwin.sim.hints import near
from blktwin.sim.hosts import DEFAULT_HOST, Host, get_host

ELEVATORS: dict[str, type[Elevator] | None] = {"none": None, "mq-deadline": Deadline, "bfq": Bfq}
NOT_YET = ("kyber",)
DEFAULT_SEED = 1


@dataclass(slots=True)
class Stack:
    """What a run stands on."""

    devices: list[DeviceSpec] = field(default_factory=list)
    scheduler: str = ""
    """For every device; "" for the job's ioscheduler, the device's own, or the kernel's default."""
    tunables: list[tuple[str, str]] = field(default_factory=list)
    """("iosched.fifo_batch", "16") or ("sda.iosched.fifo_batch", "16") and the like, from --set."""
    rules: Rules = field(default_factory=lambda: find_rules(DEFAULT_RULES))
    host: Host = field(default_factory=lambda: get_host(DEFAULT_HOST))
    cpus: int = 0
    """0: the host's."""
    cgroup: str = "/"
    cgroups: CgroupFile | None = None
    """From --cgroups; its paths are absolute, while a job's cgroup= is below `cgroup`."""
    cgroup_per_job: str = ""
    """A cgroup for every thread, below `cgroup`: %name and %n stand for its job and number."""
    file: str = ""
    """That of --stack."""
    variant: str = ""
    files: dict[str, FileSpec] = field(default_factory=dict)
    loops: dict[str, LoopSpec] = field(default_factory=dict)
    mounts: dict[str, MountSpec] = field(default_factory=dict)
    hogs: list[HogSpec] = field(default_factory=list)
    seed: int = DEFAULT_SEED
    faults: dict[str, int] = field(default_factory=dict)


def find_rules(name: str) -> Rules:
    """Return the preset of a kernel; UsageError lists them: a near number is no near kernel."""
    rules = preset(name)
    if rules is None:
        raise UsageError(f"no rules for kernel '{name}'; there are {', '.join(PRESET_NAMES)}", key="--rules")
    return rules


def make_elevator(name: str, key: str, file: str = "", line: int = 0) -> Elevator | None:
    """Return a new elevator, None for "none"; an error names where the name came from."""
    if name in NOT_YET:
        raise UsageError(
            f"{name} is not modelled yet: use none, mq-deadline or bfq (--scheduler overrides the job's ioscheduler)",
            file=file,
            line=line,
            key=key,
        )
    if name not in ELEVATORS:
        hint = near(name, ELEVATORS) or f"; there are {', '.join(ELEVATORS)}"
        raise UsageError(f"no scheduler '{name}'{hint}", file=file, line=line, key=key)
    kind = ELEVATORS[name]
    return None if kind is None else kind()


def set_tunable(elevator: Elevator | None, path: str, text: str) -> None:
    """Write one iosched file; UsageError for a wrong name or value. path: what --set says, up to the equals sign."""
    key = f"--set {path}"
    name = path.rpartition(".")[2]
    if elevator is None:
        raise UsageError("the scheduler none has no tunables", key=key)
    tunable = elevator.tunables.get(name)
    if tunable is None:
        hint = near(name, elevator.tunables) or f"; there are {', '.join(elevator.tunables)}"
        raise UsageError(f"{elevator.name} has no such tunable{hint}", key=key)
    try:
        value = int(text, 0)
    except ValueError:
        raise UsageError(f"{text!r} is not a whole number", key=key) from None
    if not tunable.low <= value <= tunable.high:
        raise UsageError(f"{value} is out of range: {tunable.low} to {tunable.high} {tunable.unit}".rstrip(), key=key)
    elevator.set_tunable(name, value)
