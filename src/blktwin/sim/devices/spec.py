"""What --device says: /dev/nvme0n1=PROFILE,key=value,... and which profile a device has when nothing says so."""

from __future__ import annotations

import re
from typing import Final

from blktwin.errors import ConfigError, UsageError
from blktwin.sim.devices.options import Value, find_option, parse_value
from blktwin.sim.devices.profiles import Profile, builtin_profiles, complete, number
from blktwin.sim.hints import near

DEFAULTS: Final = (
    (r"nvme\d+(c\d+)?n\d+", "nvme"),
    (r"nullb\d+", "null"),
    (r"sd[a-z]+", "sata-ssd"),
    (r"mmcblk\d+", "emmc"),
    (r"(vd|xvd)[a-z]+", "virtual"),
)
"""Kernel names, and the profile that a device of that name has."""

PARTITION: Final = r"((?:nvme\d+(?:c\d+)?n\d+|nullb\d+|mmcblk\d+)(?=p\d+$)|(?:sd|vd|xvd)[a-z]+(?=\d+$)).*"
EXAMPLE: Final = "give one with --device {path}=PROFILE (profiles: {names})"


class DeviceSpec:
    """One device to simulate: its path, its profile, and all its values, the profile's and those given."""

    def __init__(self, path: str, profile: Profile, given: dict[str, Value]) -> None:
        self.path: str = path
        self.name: str = path.rpartition("/")[2]
        """The disk's name, as in /sys/block."""
        self.profile: Profile = profile
        self.given: dict[str, Value] = given
        """What was said beyond the profile."""
        self.values: dict[str, Value] = complete(profile.model, profile.values, given)

    def number(self, key: str, default: int = 0) -> int:
        """Return the whole number at key, in bytes, ns or bytes a second where it has a unit."""
        return number(self.values, key, default)

    @property
    def scheduler(self) -> str:
        """The scheduler that was asked for, "" for the kernel's default."""
        value = self.values.get("scheduler")
        return value if isinstance(value, str) else ""


def default_profile(path: str) -> str:
    """Return the name of the profile that the device's name stands for, "" for none."""
    name = path.rpartition("/")[2]
    for pattern, profile in DEFAULTS:
        if re.fullmatch(pattern, name):
            return profile
    return ""


def parse_device(text: str, profiles: dict[str, Profile] | None = None) -> DeviceSpec:
    """Read one --device; profiles are those of the package if none are given.

    "/dev/nvme0n1", "/dev/nvme0n1=seed2-nvme", "/dev/nvme0n1=seed2-nvme,size=200g", "/dev/nvme0n1,size=200g" are all
    right. Raises UsageError with the key at fault and the near match.
    """
    known = builtin_profiles() if profiles is None else profiles
    head, *items = split_items(text)
    path, has_profile, profile_name = (part.strip() for part in head.partition("="))
    file = "--device " + text
    if not path.startswith("/dev/") or path == "/dev/":
        raise UsageError(f"'{path}' is not a path such as /dev/nvme0n1", file=file)
    part = re.fullmatch(PARTITION, path.rpartition("/")[2])
    if part:
        hint = f"name the disk, /dev/{part[1]}, and use offset= and size="
        raise UsageError(f"{path} is a partition, which is not modelled: {hint}", file=file)
    if not has_profile:
        profile_name = default_profile(path)
        if not profile_name:
            hint = EXAMPLE.format(path=path, names=", ".join(known))
            raise UsageError(f"no profile goes with the name {path}: {hint}", file=file)
    profile = known.get(profile_name)
    if profile is None:
        hint = near(profile_name, known) or f"; there are {', '.join(known)}"
        raise UsageError(f"no profile '{profile_name}'{hint}", file=file)
    given: dict[str, Value] = {}
    for item in items:
        key, has_value, raw = (part.strip() for part in item.partition("="))
        try:
            if not has_value:
                raise ConfigError("no value: key=value")
            if key in given:
                raise ConfigError("given twice")
            given[key] = parse_value(find_option(key, profile.model), raw)
        except ConfigError as error:
            raise UsageError(error.message, file=file, key=key) from None
    try:
        return DeviceSpec(path, profile, given)
    except ConfigError as error:
        raise UsageError(error.message, file=file) from None


def split_items(text: str) -> list[str]:
    """Split at commas, but not at those inside brackets: lognormal(80us, 0.2) is one value."""
    items = [""]
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0:
            items.append("")
        else:
            items[-1] += char
    return items
