"""Reads [file], [loop] and [mount] of a stack file, and checks what they refer to."""

from __future__ import annotations

import posixpath

from blktwin.drivers.loop.config import (
    BUGS_OF_V4,
    BUGS_OF_V5,
    COMPAT_NAMES,
    LOOP_MAX_DEPTH,
    NOWAIT_VARIANTS,
    POLICIES,
    LoopConfig,
)
from blktwin.errors import ConfigError
from blktwin.lab.stack import ELEVATORS
from blktwin.lab.stack_said import LOOP_NAME, LOOP_PATH, FileSpec, LoopSpec, MountSpec, StackFile, in_order
from blktwin.lab.toml_file import Table
from blktwin.lab.toml_values import (
    Place,
    Reader,
    as_table,
    choice_reader,
    count_reader,
    read_flag,
    read_keys,
    read_number,
    read_size,
    read_text,
    read_time_ns,
)
from blktwin.sim.files.params import PARAM_NAMES, FileParams, check_params
from blktwin.sim.hints import near

COUNT_MAX = 1 << 40
LOOP_KEYS: dict[str, tuple[str, Reader]] = {
    "direct-io": ("direct_io", read_flag),
    "offset": ("offset_bytes", read_size),
    "sizelimit": ("sizelimit_bytes", read_size),
    "sector-size": ("block_bytes", read_size),
    "read-only": ("read_only", read_flag),
    "partscan": ("partscan", read_flag),
    "autoclear": ("autoclear", read_flag),
    "policy": ("policy", choice_reader("policy", POLICIES)),
    "hw-queues": ("nr_hw_queues", count_reader(1, 4096)),
    "queue-depth": ("queue_depth", count_reader(1, LOOP_MAX_DEPTH)),
    "hint": ("hint", read_flag),
    "nowait-variant": ("nowait_variant", choice_reader("variant", NOWAIT_VARIANTS)),
    "batch-plug": ("batch_plug", read_flag),
}
"""losetup's words, and ours, with the attribute of LoopConfig."""
QUEUE_KEYS: dict[str, tuple[str, Reader]] = {
    "scheduler": ("scheduler", choice_reader("scheduler", ELEVATORS)),
    "nr-requests": ("nr_requests", count_reader(4, 10240)),
    "nomerges": ("nomerges", count_reader(0, 2)),
    "rq-affinity": ("rq_affinity", count_reader(0, 2)),
}
FILE_NAMES = {"kind": "fs", "size_bytes": "size", "is_sparse": "sparse"}
SERIES = {"v4": BUGS_OF_V4, "v5": BUGS_OF_V5}
"""Bugs that posted patches have in common."""
UNITS = {"_bytes": read_size, "_ns": read_time_ns}


def read_loop(place: Place, name: str, table: Table) -> LoopSpec:
    """Return one loop device."""
    if not LOOP_NAME.fullmatch(name):
        raise place.error("is not the name of a loop device such as loop0")
    readers = {key: reader for key, (_, reader) in {**LOOP_KEYS, **QUEUE_KEYS}.items()}
    values = read_keys(place, table, {"backing-file": read_text, **readers, "kernel-compat": as_is})
    if "backing-file" not in values:
        raise place.error('needs backing-file = "/data/disk.img" or the like')
    config = LoopConfig()
    config.compat.enable(read_compat(place.at("kernel-compat"), values.pop("kernel-compat", {})))
    spec = LoopSpec(name, str(values["backing-file"]), config, place)
    for key, value in values.items():
        if key in LOOP_KEYS:
            setattr(config, LOOP_KEYS[key][0], value)
        elif key in QUEUE_KEYS:
            setattr(spec, QUEUE_KEYS[key][0], value)
    check_loop(spec)
    return spec


def check_loop(spec: LoopSpec) -> None:
    """Refuse what no loop device takes, whatever it lies on."""
    block = int(spec.config.block_bytes)
    if block and (block & (block - 1) or not 512 <= block <= 65536):
        raise spec.at.error(f"{block} is not a power of two from 512 to 65536", "sector-size")
    if not spec.backing.startswith("/"):
        raise spec.at.error(f"'{spec.backing}' is not an absolute path", "backing-file")


def as_is(_: Place, value: object) -> object:
    """Return what is read later."""
    return value


def read_compat(place: Place, value: object) -> list[str]:
    """Return the kernel's bugs that are on: those of "v4" or "v5", or of a table such as {short-write-ok = true}."""
    if isinstance(value, str):
        return list(SERIES[str(choice_reader("series", SERIES)(place, value))])
    flags: dict[str, Reader] = {name.replace("_", "-"): read_flag for name in COMPAT_NAMES}
    said = read_keys(place, as_table(place, value, '{short-write-ok = true}, or "v4" or "v5"'), flags)
    return [key.replace("-", "_") for key, is_on in said.items() if is_on]


def file_readers(example: FileParams) -> dict[str, tuple[str, Reader]]:
    """Return the keys of [file] with attribute and reader, out of the kinds of FileParams' defaults."""
    readers: dict[str, tuple[str, Reader]] = {}
    for name in PARAM_NAMES:
        if name == "keeps_bytes":
            # A job's I/Os carry no bytes.
            continue
        default = getattr(example, name)
        unit = next((unit for unit in UNITS if name.endswith(unit)), "")
        key = FILE_NAMES.get(name, name.removesuffix(unit).removeprefix("is_").replace("_", "-"))
        reader: Reader = read_text
        if isinstance(default, bool):
            reader = read_flag
        elif unit:
            reader = UNITS[unit]
        elif isinstance(default, int):
            reader = count_reader(0, COUNT_MAX)
        elif isinstance(default, float):
            reader = read_number
        readers[key] = (name, reader)
    return readers


def read_file(place: Place, path: str, table: Table) -> FileSpec:
    """Return one file."""
    if not path.startswith("/") or path.startswith("/dev/") or path != posixpath.normpath(path):
        raise place.error("is not the path of a regular file such as /data/disk.img")
    params = FileParams()
    keys = file_readers(params)
    values = read_keys(place, table, {"on": read_text, **{key: reader for key, (_, reader) in keys.items()}})
    spec = FileSpec(path, str(values.pop("on", "")), params, place)
    if spec.on and not spec.on.startswith("/dev/"):
        raise place.error(f"'{spec.on}' is not a device such as /dev/nvme0n1", "on")
    if "size" not in values:
        raise place.error('needs size = "4g" or the like')
    for key, value in values.items():
        setattr(params, keys[key][0], value)
    try:
        check_params(params)
    except ConfigError as error:
        names = {name: key for key, (name, _) in keys.items()}
        raise place.error(error.message, names.get(error.key, "")) from None
    return spec


def read_mount(place: Place, path: str, table: Table) -> MountSpec:
    """Return one mount."""
    if not path.startswith("/") or path.startswith("/dev/") or path != posixpath.normpath(path):
        raise place.error("is not a directory such as /mnt")
    values = read_keys(place, table, {"device": read_text})
    device = str(values.get("device", ""))
    if not device.startswith("/dev/"):
        message = f"'{device}' is not a device such as /dev/loop0" if device else 'needs device = "/dev/loop0"'
        raise place.error(message, "device" if device else "")
    return MountSpec(path, device, place)


# -- what the tables refer to


def check_references(result: StackFile) -> None:
    """Refuse loop devices on what is not there, files on themselves and the like."""
    for loop in result.loops.values():
        if loop.backing.startswith("/dev/"):
            check_device(result, loop.backing, loop.at, "backing-file")
        elif loop.backing not in result.files:
            hint = near(loop.backing, result.files) or f': give it a table [file."{loop.backing}"]'
            raise loop.at.error(f"no file {loop.backing}{hint}", "backing-file")
    for file in result.files.values():
        check_device(result, file.on, file.at, "on")
    for mount in result.mounts.values():
        check_device(result, mount.device, mount.at, "device")
    in_order(result.files, result.loops)


def check_device(result: StackFile, path: str, at: Place, key: str) -> None:
    """Refuse a loop device that no table makes; the names of other devices may stand for their profiles."""
    name = path.removeprefix("/dev/")
    if LOOP_PATH.fullmatch(path) and name not in result.loops:
        hint = near(path, [loop.path for loop in result.loops.values()]) or f": give it a table [loop.{name}]"
        raise at.error(f"no loop device {path}{hint}", key)
