"""Reads the sections of a stack file, one function each; SECTIONS has them in the order of reading."""

from __future__ import annotations

import re
from collections.abc import Callable

from blktwin.block.rules import PRESET_NAMES
from blktwin.errors import ConfigError
from blktwin.lab.cgroups import CgroupFile, load_cgroups, path_problem
from blktwin.lab.cgroups import read_tables as read_cgroup_tables
from blktwin.lab.runtime import runtime_ns
from blktwin.lab.scenario_expect import read_expect
from blktwin.lab.stack import ELEVATORS
from blktwin.lab.stack_loops import read_file, read_loop, read_mount
from blktwin.lab.stack_said import HogSpec, StackFile
from blktwin.lab.toml_file import Table
from blktwin.lab.toml_values import (
    Place,
    Reader,
    as_table,
    as_tables,
    choice_reader,
    count_reader,
    read_keys,
    read_text,
    read_texts,
)
from blktwin.sim.devices.options import Value, find_option, parse_value
from blktwin.sim.devices.spec import DeviceSpec, parse_device
from blktwin.sim.hosts import DEFAULT_HOST, builtin_hosts, get_host, make_host, wrong

CPU_MAX = 4095
HOGS_MAX = 4096
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD = re.compile(r"%(.?)")

Section = Callable[[StackFile, Place, object, Table], None]


def read_section(result: StackFile, place: Place, value: object, tables: Table) -> None:
    """Read one section into result."""
    SECTIONS[place.where[0]](result, place, value, tables)


# -- single values


def read_title(result: StackFile, place: Place, value: object, _: Table) -> None:
    """title = what the scenario is, in a line."""
    result.title = read_text(place, value)


def read_caveats(result: StackFile, place: Place, value: object, _: Table) -> None:
    """caveats = what is printed with every result."""
    result.caveats = [" ".join(text.split()) for text in read_long_texts(place, value)]


def read_long_texts(place: Place, value: object) -> list[str]:
    """Return texts that may have several lines."""
    items = value if isinstance(value, list) else [value]
    return read_texts(place, [" ".join(item.split()) if isinstance(item, str) else item for item in items])


def read_job(result: StackFile, place: Place, value: object, _: Table) -> None:
    """job = a fio file, or several."""
    paths = read_texts(place, value)
    if "-" in paths:
        raise place.error("- is standard input, which only the command line can name")
    result.jobs = [result.beside(path) for path in paths]


def read_runtime(result: StackFile, place: Place, value: object, _: Table) -> None:
    """runtime = as --runtime has it."""
    result.runtime = read_text(place, value)
    try:
        runtime_ns(result.runtime)
    except ConfigError as error:
        raise place.error(error.message) from None


def read_rules(result: StackFile, place: Place, value: object, _: Table) -> None:
    """rules = the kernel to imitate."""
    result.rules = str(choice_reader("rules for kernel", PRESET_NAMES)(place, value))


def read_scheduler(result: StackFile, place: Place, value: object, _: Table) -> None:
    """scheduler = that of every device."""
    result.scheduler = str(choice_reader("scheduler", ELEVATORS)(place, value))


def read_set(result: StackFile, place: Place, value: object, _: Table) -> None:
    """set = tunables, as --set has them."""
    for text in read_texts(place, value):
        name, equals, number = text.partition("=")
        if not equals or name.rpartition(".")[0].rpartition(".")[2] != "iosched":
            raise place.error(f"'{text}' is not iosched.NAME=VALUE or DEVICE.iosched.NAME=VALUE")
        result.tunables.append((name.strip(), number.strip()))


def read_env(result: StackFile, place: Place, value: object, _: Table) -> None:
    """[env]: what ${NAME} is in the job files."""
    for name, text in as_table(place, value, '{DEV = "/dev/loop0"}').items():
        if not _ENV_NAME.fullmatch(name):
            raise place.error("is not the name of a variable", name)
        is_number = isinstance(text, int) and not isinstance(text, bool)
        result.env[name] = str(text) if is_number else read_text(place.at(name), text)


def read_cgroup_per_job(result: StackFile, place: Place, value: object, _: Table) -> None:
    """cgroup-per-job = a path in which %name and %n stand for a thread's job and number."""
    path = read_text(place, value)
    for found in _FIELD.finditer(path.replace("%name", "").replace("%n", "")):
        raise place.error(f"{found.group()} stands for nothing: there are %name and %n")
    problem = path_problem(path)
    if problem:
        raise place.error(f"'{path}' {problem}" if not problem.startswith("a cgroup") else problem)
    result.cgroup_per_job = path


def read_cgroups(result: StackFile, place: Place, value: object, tables: Table) -> None:
    """cgroups = a file of --cgroups."""
    for key in ("cgroup", "at"):
        if key in tables:
            raise Place(place.toml, (key,)).error("the stack has cgroups = already: one or the other")
    result.cgroups = load_cgroups(result.beside(read_text(place, value)))


# -- tables


def read_cgroup(result: StackFile, place: Place, _: object, tables: Table) -> None:
    """[cgroup."/x"] and [[at]], as in a file of --cgroups."""
    if result.cgroups is None:
        toml = place.toml
        said: Table = {key: tables[key] for key in ("cgroup", "at") if key in tables}
        result.cgroups = read_cgroup_tables(said, CgroupFile(toml.file, toml.lines))


def read_host(result: StackFile, place: Place, value: object, _: Table) -> None:
    """[host]: a name, and keys of a host on top."""
    table = dict(as_table(place, value, '{name = "server", cpus = 8}'))
    name = read_text(place.at("name"), table.pop("name", DEFAULT_HOST))
    try:
        base = get_host(name)
    except ConfigError as error:
        raise place.error(error.message, "name") from None
    for key, one in table.items():
        problem = wrong(key, one)
        if key in ("inherit", "source"):
            problem = "means nothing here: name says which host this is"
        if problem:
            raise place.error(problem, key)
    if not table:
        result.host = base
        return
    try:
        result.host = make_host(name, {"inherit": name, "source": base.source, **table}, builtin_hosts())
    except ConfigError as error:
        raise place.error(error.message) from None


def read_devices(result: StackFile, place: Place, value: object, _: Table) -> None:
    """[device."/dev/nvme0n1"]: a profile, and keys of a device on top."""
    for path, table in as_table(place, value, '[device."/dev/nvme0n1"]').items():
        here = place.at(path)
        result.devices.append(read_device(here, path, as_table(here, table, '[device."/dev/nvme0n1"]')))


def read_device(place: Place, path: str, table: Table) -> DeviceSpec:
    """Return one device."""
    if re.search(r"[=,\s]", path):
        raise place.error("is not a path such as /dev/nvme0n1")
    profile = read_text(place.at("profile"), table["profile"]) if "profile" in table else ""
    if re.search(r"[=,\s]", profile):
        raise place.error(f"{profile!r} is not the name of a profile", "profile")
    try:
        spec = parse_device(f"{path}={profile}" if profile else path)
    except ConfigError as error:
        raise place.error(error.message, "profile" if profile else "") from None
    given: dict[str, Value] = {}
    for key, value in table.items():
        if key == "profile":
            continue
        try:
            given[key] = parse_value(find_option(key, spec.profile.model), value)
        except ConfigError as error:
            raise place.error(error.message, key) from None
    try:
        return DeviceSpec(path, spec.profile, given)
    except ConfigError as error:
        raise place.error(error.message) from None


def read_files(result: StackFile, place: Place, value: object, _: Table) -> None:
    """[file."/data/disk.img"]."""
    for path, table in as_table(place, value, '[file."/data/disk.img"]').items():
        here = place.at(path)
        result.files[path] = read_file(here, path, as_table(here, table, '[file."/data/disk.img"]'))


def read_loops(result: StackFile, place: Place, value: object, _: Table) -> None:
    """[loop.loop0]."""
    for name, table in as_table(place, value, "[loop.loop0]").items():
        here = place.at(name)
        result.loops[name] = read_loop(here, name, as_table(here, table, "[loop.loop0]"))


def read_mounts(result: StackFile, place: Place, value: object, _: Table) -> None:
    """[mount."/mnt"]."""
    for path, table in as_table(place, value, '[mount."/mnt"]').items():
        here = place.at(path)
        result.mounts[path] = read_mount(here, path, as_table(here, table, '[mount."/mnt"]'))


def read_hogs(result: StackFile, place: Place, value: object, _: Table) -> None:
    """[[hog]]: tasks that never sleep."""
    for here, table in as_tables(place, value):
        values = read_keys(here, table, HOG_READERS)
        hog = HogSpec(f"hog{len(result.hogs)}", here)
        for key, one in values.items():
            setattr(hog, key, one)
        result.hogs.append(hog)


def read_cpus(place: Place, value: object) -> list[int]:
    """Return numbers of CPUs: one, or a list of them."""
    items = value if isinstance(value, list) else [value]
    read = count_reader(0, CPU_MAX)
    return [int(str(read(place, item))) for item in items]


def read_cgroup_path(place: Place, value: object) -> str:
    """Return the path of a cgroup."""
    path = read_text(place, value)
    problem = path_problem(path)
    if problem:
        raise place.error(problem)
    return path


def read_expectations(result: StackFile, place: Place, value: object, _: Table) -> None:
    """[expect.VARIANT]: what others have measured."""
    for name, table in as_table(place, value, "[expect.VARIANT]").items():
        here = place.at(name)
        result.expect[name] = read_expect(here, as_table(here, table, "[expect.VARIANT]"))


def ignore(result: StackFile, place: Place, value: object, tables: Table) -> None:
    """Variants have been read before all else."""


HOG_READERS: dict[str, Reader] = {
    "name": read_text,
    "cpus": read_cpus,
    "nice": count_reader(-20, 19),
    "cgroup": read_cgroup_path,
    "count": count_reader(1, HOGS_MAX),
}
SECTIONS: dict[str, Section] = {
    "title": read_title,
    "caveats": read_caveats,
    "job": read_job,
    "env": read_env,
    "runtime": read_runtime,
    "rules": read_rules,
    "scheduler": read_scheduler,
    "set": read_set,
    "host": read_host,
    "device": read_devices,
    "file": read_files,
    "loop": read_loops,
    "mount": read_mounts,
    "cgroups": read_cgroups,
    "cgroup": read_cgroup,
    "at": read_cgroup,
    "cgroup-per-job": read_cgroup_per_job,
    "hog": read_hogs,
    "variant": ignore,
    "expect": read_expectations,
}
