"""The cgroup files of BFQ: what the kernel takes and prints, to the letter, on a Cgroup.

A write returns 0 or a negative errno, as the system call does for root. The files of both hierarchies are always
there: io.bfq.weight (v2), blkio.bfq.* (v1).
Differs: the devices of a cgroup are printed in the reverse order of their first weight (or, in the statistics, of
their first I/O); the kernel has one order for both, that of their first use in any way.
"""

from __future__ import annotations

import re
from typing import Final

from blktwin.block.cgroup import (
    STAT_DISCARD,
    STAT_KINDS,
    STAT_READ,
    STAT_WRITE,
    WEIGHT_MAX,
    WEIGHT_MIN,
    Cgroup,
)

Dev = tuple[int, int]

ENOENT: Final = 2
ENODEV: Final = 19
EINVAL: Final = 22
ERANGE: Final = 34
EOPNOTSUPP: Final = 95

V2_WEIGHT: Final = "io.bfq.weight"
V1_WEIGHT: Final = "blkio.bfq.weight"
V1_WEIGHT_DEVICE: Final = "blkio.bfq.weight_device"
WEIGHT_FILES: Final = (V2_WEIGHT, V1_WEIGHT, V1_WEIGHT_DEVICE)
STAT_FILES: Final = (
    "blkio.bfq.io_service_bytes",
    "blkio.bfq.io_serviced",
    "blkio.bfq.io_service_bytes_recursive",
    "blkio.bfq.io_serviced_recursive",
)

PAGE_BYTES: Final = 4096
"""One write takes no more."""
U64: Final = (1 << 64) - 1
U32: Final = (1 << 32) - 1
BLANKS: Final = " \t\n\v\f\r\xa0"
DEFAULT_WEIGHT: Final = re.compile(f"default[{BLANKS}]*([0-9]+)")
DEVICE: Final = re.compile(f"[{BLANKS}]*([0-9]+):[{BLANKS}]*([0-9]+)[{BLANKS}]+")
LEADING_NUMBER: Final = re.compile("([0-9]+)")


def file_names(group: Cgroup) -> list[str]:
    """Return the names of the cgroup's files; the root has no weights."""
    return list(STAT_FILES if group.parent is None else WEIGHT_FILES + STAT_FILES)


def read_file(group: Cgroup, name: str) -> str | None:
    """Return what a file holds, every line ended; None if there is no such file."""
    if not group.is_online or name not in file_names(group):
        return None
    if name == V1_WEIGHT:
        return str(group.weight) + "\n"
    if name in WEIGHT_FILES:
        lines = ["default " + str(group.weight)]
        for dev in reversed(list(group.dev_weights)):
            lines.append(dev_name(dev) + " " + str(group.dev_weights[dev]))
        return "\n".join(lines) + "\n"
    return stat_text(group, "service_bytes" in name, name.endswith("_recursive"))


def write_file(group: Cgroup, name: str, text: str, devices: dict[Dev, bool]) -> int:
    """Write text to a file; return 0 or -errno. devices: all disks of the machine, True where BFQ is at work.

    Kernel: cgroup_file_write(), kernel/cgroup/cgroup.c, and bfq_io_set_weight(), block/bfq-cgroup.c, v6.12.
    """
    if not group.is_online:
        return -ENODEV
    if name not in file_names(group):
        return -ENOENT
    if not text:
        return 0
    text = text[:PAGE_BYTES].partition("\0")[0]
    if name == V1_WEIGHT:
        return set_weight_u64(group, text)
    if name in WEIGHT_FILES:
        return set_weight_text(group, text.strip(BLANKS), devices)
    return -EINVAL


def dev_name(dev: Dev) -> str:
    """Return "MAJ:MIN"."""
    return str(dev[0]) + ":" + str(dev[1])


# -- weights


def set_weight(group: Cgroup, weight: int) -> int:
    """Set the weight for all devices.

    Kernel: bfq_io_set_weight_legacy(), block/bfq-cgroup.c, v6.12.
    """
    if not WEIGHT_MIN <= weight <= WEIGHT_MAX:
        return -ERANGE
    group.set_weight(weight)
    return 0


def set_weight_u64(group: Cgroup, text: str) -> int:
    """Take the text of a file that holds one number.

    Kernel: kstrtoull(), lib/kstrtox.c, v6.12.
    """
    text = text.removeprefix("+")
    value, rest = read_number(text)
    if value > U64:
        return -ERANGE
    if len(rest) == len(text) or rest not in ("", "\n"):
        return -EINVAL
    return set_weight(group, value)


def set_weight_text(group: Cgroup, text: str, devices: dict[Dev, bool]) -> int:
    """Take "W", "default W", "MAJ:MIN W" or "MAJ:MIN default"; no text at all counts as 0.

    Kernel: bfq_io_set_weight(), block/bfq-cgroup.c, v6.12.
    """
    value, rest = read_number(text)
    if not rest:
        return set_weight(group, value & U64)
    match = DEFAULT_WEIGHT.match(text)
    if match:
        return set_weight(group, int(match.group(1)) & U64)
    return set_device_weight(group, text, devices)


def set_device_weight(group: Cgroup, text: str, devices: dict[Dev, bool]) -> int:
    """Take "MAJ:MIN W" or "MAJ:MIN default"; what follows a number is not looked at.

    Kernel: bfq_io_set_device_weight(), block/bfq-cgroup.c, and blkg_conf_prep(), block/blk-cgroup.c, v6.12.
    """
    match = DEVICE.match(text)
    if match is None:
        return -EINVAL
    dev = (int(match.group(1)) & U32, int(match.group(2)) & U32)
    has_bfq = devices.get(dev)
    if has_bfq is None:
        return -ENODEV
    if not has_bfq:
        return -EOPNOTSUPP
    body = text[match.end() :]
    number = LEADING_NUMBER.match(body)
    if number is None:
        if body != "default":
            return -EINVAL
        group.set_dev_weight(dev, 0)
        return 0
    weight = int(number.group(1)) & U64
    if not WEIGHT_MIN <= weight <= WEIGHT_MAX:
        return -ERANGE
    group.set_dev_weight(dev, weight)
    return 0


def read_number(text: str) -> tuple[int, str]:
    """Read a number as C writes it (0x1e, 036, 30) at the start of text; return it and the rest, 0 if there is none.

    Kernel: _parse_integer_fixup_radix(), lib/kstrtox.c, v6.12.
    """
    base = 10
    digits = "0123456789"
    if text[:1] == "0":
        base = 8
        digits = "01234567"
        if text[1:2] in ("x", "X") and text[2:3] and text[2:3] in "0123456789abcdefABCDEF":
            base = 16
            digits = "0123456789abcdefABCDEF"
            text = text[2:]
    end = 0
    while end < len(text) and text[end] in digits:
        end += 1
    return (int(text[:end], base) if end else 0), text[end:]


# -- statistics


def stat_text(group: Cgroup, is_bytes: bool, is_recursive: bool) -> str:
    """Return a statistics file: six lines for each device that the cgroup has used, then their total.

    What a removed cgroup has done is in no file: the kernel hands on only the counters of CONFIG_BFQ_CGROUP_DEBUG.
    Kernel: __blkg_prfill_rwstat(), block/blk-cgroup-rwstat.c, and bfqg_stats_add_aux(), block/bfq-cgroup.c, v6.12.
    """
    lines = []
    total = 0
    for dev in reversed(list(group.devices)):
        counts = [0] * len(STAT_KINDS)
        add_counts(counts, group, dev, is_bytes, is_recursive)
        name = dev_name(dev)
        for kind, count in zip(STAT_KINDS, counts, strict=True):
            lines.append(f"{name} {kind} {count}")
        moved = counts[STAT_READ] + counts[STAT_WRITE] + counts[STAT_DISCARD]
        lines.append(f"{name} Total {moved}")
        total += moved
    lines.append(f"Total {total}")
    return "\n".join(lines) + "\n"


def add_counts(counts: list[int], group: Cgroup, dev: Dev, is_bytes: bool, is_recursive: bool) -> None:
    """Add a cgroup's counters of one device, and those of all that is below it and still there.

    Kernel: blkg_rwstat_recursive_sum(), block/blk-cgroup-rwstat.c, v6.12.
    """
    data = group.devices.get(dev)
    if data is not None and group.is_online:
        stats = data.service_stats()
        for kind in range(len(STAT_KINDS)):
            counts[kind] += int(stats.bytes[kind] if is_bytes else stats.ios[kind])
    if is_recursive:
        for child in group.children:
            add_counts(counts, child, dev, is_bytes, True)
