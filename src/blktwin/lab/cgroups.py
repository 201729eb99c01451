"""The file of --cgroups: cgroups with their weights, the jobs in them, and what changes in the course of the run.

    [cgroup."/a"]
    io.bfq.weight = 30
    io.bfq.weight_device = {"/dev/nvme0n1" = 50, "259:1" = "default"}
    jobs = ["t1", "web*"]

    [[at]]
    time = "2s"
    cgroup = "/a"                # or: move = "t1", to = "/b"; or: remove = "/a"
    io.bfq.weight = 50

Everything that the file alone can tell is checked here; cgroup_run.py knows the jobs and devices, and applies it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from blktwin.block.cgroup import WEIGHT_MAX, WEIGHT_MIN
from blktwin.lab.toml_file import Path_, Table, TomlFile, find_lines, parse_tables, read_text
from blktwin.sim.hints import near

WEIGHT = "io.bfq.weight"
WEIGHT_DEVICE = "io.bfq.weight_device"
ALIASES = {"blkio.bfq.weight": WEIGHT, "blkio.bfq.weight_device": WEIGHT_DEVICE}
WEIGHT_KEYS = (WEIGHT, WEIGHT_DEVICE, *ALIASES)
CPU_WEIGHT = "cpu.weight"
CPU_WEIGHT_MAX = 10_000
GROUP_KEYS = (*WEIGHT_KEYS, CPU_WEIGHT, "jobs")
KINDS = ("cgroup", "move", "remove")
CHANGE_KEYS = ("time", *KINDS, "to", *WEIGHT_KEYS)
SECTIONS = ("cgroup", "at")
PATH_BYTES_MAX = 4095
NAME_BYTES_MAX = 255
TIME_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "": 10**9, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
TIME_MAX_NS = 10 * 366 * 86_400 * 10**9

_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")
_DEVICE = re.compile(r"/dev/\S+|[0-9]+:[0-9]+")


@dataclass(slots=True)
class GroupSpec:
    """One cgroup. weight 0: not given; devices: weights by "/dev/..." or "MAJ:MIN", 0 for "default"."""

    path: str
    weight: int = 0
    devices: dict[str, int] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    """Names or globs of fio's jobs."""
    cpu_weight: int = 0
    """cpu.weight, 0: not given."""


@dataclass(slots=True)
class Change:
    """One [[at]]: weights of the cgroup at path, or jobs that move there, or that cgroup is removed."""

    where: Path_
    time_ns: int
    kind: str
    """cgroup, move or remove."""
    path: str
    weight: int = 0
    devices: dict[str, int] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class CgroupFile(TomlFile):
    """A whole file, its changes in the order of their times, and where everything stands in it."""

    groups: dict[str, GroupSpec] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)


def load_cgroups(path: str) -> CgroupFile:
    """Read a file; ConfigError names file, line and key of any mistake."""
    return parse_cgroups(read_text(path, "cgroups"), path)


def parse_cgroups(text: str, file: str) -> CgroupFile:
    """Read TOML text; ConfigError names file, line and key of any mistake."""
    return read_tables(parse_tables(text, file), CgroupFile(file, find_lines(text)))


def read_tables(tables: Table, result: CgroupFile) -> CgroupFile:
    """Read all sections into result, and return it."""
    for name, value in tables.items():
        if name not in SECTIONS:
            raise result.error((name,), f"no such section{near(name, SECTIONS) or '; there are [cgroup] and [[at]]'}")
        if name == "cgroup":
            read_groups(result, value)
        else:
            read_changes(result, value)
    result.changes.sort(key=lambda change: change.time_ns)
    check_removed(result)
    return result


# -- sections


def read_groups(result: CgroupFile, tables: object) -> None:
    """Read all [cgroup."/path"]."""
    if not isinstance(tables, dict):
        raise result.error(("cgroup",), 'must be tables such as [cgroup."/a"]')
    for path, table in tables.items():
        where = ("cgroup", path)
        check_path(result, where, path)
        if not isinstance(table, dict):
            raise result.error(where, f'must be a table: [cgroup."{path}"]')
        values = read_keys(result, where, table, GROUP_KEYS)
        group = GroupSpec(path)
        group.weight, group.devices = read_weights(result, where, values, path)
        if CPU_WEIGHT in values:
            if path == "/":
                raise result.error((*where, CPU_WEIGHT), "the root cgroup has no weight")
            group.cpu_weight = read_weight(result, (*where, CPU_WEIGHT), values[CPU_WEIGHT], CPU_WEIGHT_MAX)
        if "jobs" in values:
            group.jobs = read_names(result, (*where, "jobs"), values["jobs"])
        result.groups[path] = group


def read_changes(result: CgroupFile, tables: object) -> None:
    """Read all [[at]]."""
    if not isinstance(tables, list):
        raise result.error(("at",), "must be tables, each begun by [[at]]")
    for index, table in enumerate(tables):
        where = ("at", str(index))
        if not isinstance(table, dict):
            raise result.error(where, "must be a table, begun by [[at]]")
        result.changes.append(read_change(result, where, read_keys(result, where, table, CHANGE_KEYS)))


def read_change(result: CgroupFile, where: Path_, values: Table) -> Change:
    """Read one [[at]]."""
    if "time" not in values:
        raise result.error(where, 'needs time = "2s" or the like')
    time_ns = read_time_ns(result, (*where, "time"), values["time"])
    kinds = [kind for kind in KINDS if kind in values]
    if len(kinds) != 1:
        raise result.error(where, f"needs one of {', '.join(KINDS)}; it has {' and '.join(kinds) or 'none'}")
    kind = kinds[0]
    target = "to" if kind == "move" else kind
    allowed = {"cgroup": WEIGHT_KEYS, "move": ("to",), "remove": ()}[kind]
    for key in values:
        if key not in ("time", kind) and key not in allowed:
            raise result.error((*where, key), f"means nothing beside {kind}")
    if target not in values:
        raise result.error(where, 'move needs to = "/path"')
    path = values[target]
    if not isinstance(path, str):
        raise result.error((*where, target), f'{path!r} is not a path such as "/a"')
    check_path(result, (*where, target), path)
    change = Change(where, time_ns, kind, path)
    if kind == "move":
        change.jobs = read_names(result, (*where, "move"), values["move"])
    elif kind == "cgroup":
        change.weight, change.devices = read_weights(result, where, values, path)
        if not change.weight and not change.devices:
            raise result.error(where, f"cgroup needs {WEIGHT} or {WEIGHT_DEVICE}")
    elif path == "/":
        raise result.error((*where, "remove"), "the root cgroup stays")
    return change


def check_removed(result: CgroupFile) -> None:
    """Refuse changes to what an earlier change has removed."""
    gone: dict[str, int] = {}
    for change in result.changes:
        path = change.path
        while path:
            if path in gone:
                key = "to" if change.kind == "move" else change.kind
                raise result.error((*change.where, key), f"{change.path} is gone since {time_text(gone[path])}")
            path = path.rpartition("/")[0]
        if change.kind == "remove":
            gone[change.path] = change.time_ns


# -- values


def read_keys(result: CgroupFile, where: Path_, table: Table, known: tuple[str, ...]) -> Table:
    """Return a table's values by full key ("io.bfq.weight", however it was written), v1 names under their v2 names."""
    values: Table = {}
    for key, value in flatten(table, known):
        if key not in known:
            hint = near(key, known) or f"; there are {', '.join(key for key in known if key not in ALIASES)}"
            if key == "jobs":
                hint = ': a job moves with move = "JOB" and to = "/CGROUP"'
            raise result.error((*where, key), f"no such key{hint}")
        name = ALIASES.get(key, key)
        if name in values:
            raise result.error((*where, key), "given twice")
        values[name] = value
    return values


def flatten(table: Table, known: tuple[str, ...], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield full keys and values; tables whose keys are devices are values."""
    for key, value in table.items():
        name = prefix + key
        is_inner = isinstance(value, dict) and value and not any(_DEVICE.match(str(inner)) for inner in value)
        if name not in known and is_inner and isinstance(value, dict):
            yield from flatten(value, known, name + ".")
        else:
            yield name, value


def read_weights(result: CgroupFile, where: Path_, values: Table, path: str) -> tuple[int, dict[str, int]]:
    """Return the weight (0: not given) and those of single devices (0: "default")."""
    weight = 0
    devices: dict[str, int] = {}
    for key in (WEIGHT, WEIGHT_DEVICE):
        if key in values and path == "/":
            raise result.error((*where, key), "the root cgroup has no weight")
    if WEIGHT in values:
        weight = read_weight(result, (*where, WEIGHT), values[WEIGHT])
    given = values.get(WEIGHT_DEVICE, {})
    if not isinstance(given, dict):
        raise result.error((*where, WEIGHT_DEVICE), 'must be a table such as {"/dev/nvme0n1" = 50, "259:1" = 20}')
    for device, value in given.items():
        place = (*where, WEIGHT_DEVICE, device)
        if not _DEVICE.fullmatch(device):
            raise result.error(place, "is neither a device such as /dev/nvme0n1 nor MAJ:MIN")
        devices[device] = 0 if value == "default" else read_weight(result, place, value)
    return weight, devices


def read_weight(result: CgroupFile, where: Path_, value: object, most: int = WEIGHT_MAX) -> int:
    """Return a weight that the kernel takes."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise result.error(where, f"{value!r} is not a whole number")
    if not WEIGHT_MIN <= value <= most:
        raise result.error(where, f"{value} is out of range: {WEIGHT_MIN} to {most}")
    return value


def read_names(result: CgroupFile, where: Path_, value: object) -> list[str]:
    """Return names or globs of jobs: one, or a list of them."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise result.error(where, f'{value!r} is not a list of job names such as ["t1", "web*"]')
    return [str(name) for name in names]


def read_time_ns(result: CgroupFile, where: Path_, value: object) -> int:
    """Return a time since the start of the run: "2s", "1.5s", "300ms", or a number of seconds."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if isinstance(value, float):
        # 0.00001 has the text 1e-05, which is no time.
        text = format(Decimal(repr(value)), "f")
    match = _TIME.fullmatch(text.strip())
    if match is None or match.group(2) not in TIME_UNITS_NS:
        raise result.error(where, f'{value!r} is not a time such as "2s" or "300ms"')
    time_ns = int(Decimal(match.group(1)) * TIME_UNITS_NS[match.group(2)])
    if time_ns > TIME_MAX_NS:
        raise result.error(where, f"{value!r} is more than ten years")
    return time_ns


def time_text(time_ns: int) -> str:
    """Return a time as the file may have it."""
    return f"{time_ns / 1e9:.9f}".rstrip("0").rstrip(".") + "s"


def check_path(result: CgroupFile, where: Path_, path: str) -> None:
    """Refuse what is not the plain absolute path of a cgroup."""
    problem = path_problem(path)
    if problem:
        raise result.error(where, problem)


def path_problem(path: str) -> str:
    """Return what keeps a text from being the plain absolute path of a cgroup, "" if nothing does."""
    if path == "/":
        return ""
    if not path.startswith("/"):
        return f'a cgroup\'s path is absolute: "/{path}"'
    if any(part in ("", ".", "..") for part in path[1:].split("/")):
        return "is not a plain path such as /a/b (no //, no . or .., no / at the end)"
    if not path.isprintable():
        return "holds a character that cannot be printed"
    if len(path.encode()) > PATH_BYTES_MAX or max(len(part.encode()) for part in path.split("/")) > NAME_BYTES_MAX:
        return f"has more than {PATH_BYTES_MAX} bytes, or {NAME_BYTES_MAX} between two slashes"
    return ""
