"""Named device profiles: reads and checks profiles.toml, or a user's own file of the same form."""

from __future__ import annotations

import pkgutil
import tomllib
from typing import Final

from blktwin.errors import ConfigError
from blktwin.sim.devices.latency import Latency
from blktwin.sim.devices.options import MODELS, Value, find_option, parse_value
from blktwin.sim.hints import line_of, near

PROFILES_FILE: Final = "profiles.toml"
REQUIRED: Final = {
    "null": ("size", "latency"),
    "nvme": ("size", "read", "write"),
    "hdd": ("size", "rpm", "seek_min", "seek_max", "mib_s"),
}


class Profile:
    """One device kind: its model, where its numbers come from, and its values by key."""

    def __init__(self, name: str, model: str, source: str, values: dict[str, Value]) -> None:
        self.name: str = name
        self.model: str = model
        self.source: str = source
        self.values: dict[str, Value] = values


CACHE: Final[dict[str, Profile]] = {}


def builtin_profiles() -> dict[str, Profile]:
    """Return the profiles that come with the package, by name."""
    if not CACHE:
        data = pkgutil.get_data("blktwin.sim.devices", PROFILES_FILE)
        assert data is not None, f"the package has no {PROFILES_FILE}"
        CACHE.update(parse_profiles(data.decode(), PROFILES_FILE))
    return CACHE


def parse_profiles(text: str, file: str) -> dict[str, Profile]:
    """Read profiles from TOML text; every mistake is a ConfigError with file, line and key."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not TOML: {error}", file=file) from None
    profiles = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(
                "only tables, such as [my-disk], stand here", file=file, line=line_of(text, name), key=name
            )
        profiles[name] = parse_profile(name, table, text, file)
    return profiles


def parse_profile(name: str, table: dict[str, object], text: str, file: str) -> Profile:
    """Check one table of profiles.toml."""
    model = table.get("model")
    at = line_of(text, f"[{name}]")
    if not isinstance(model, str) or model not in MODELS:
        hint = near(model, MODELS) if isinstance(model, str) else ""
        raise ConfigError(f"must be one of {', '.join(MODELS)}{hint}", file=file, line=at, key=f"{name}.model")
    source = table.get("source")
    if not isinstance(source, str) or not source.strip():
        raise ConfigError("must say where the numbers come from", file=file, line=at, key=f"{name}.source")
    values: dict[str, Value] = {}
    for key, raw in table.items():
        if key in ("model", "source"):
            continue
        try:
            option = find_option(key, model)
            values[key] = parse_value(option, raw)
        except ConfigError as error:
            where = f"{name}.{key}"
            raise ConfigError(error.message, file=file, line=line_of(text, key, at), key=where) from None
    try:
        return Profile(name, model, source, complete(model, {}, values))
    except ConfigError as error:
        raise ConfigError(error.message, file=file, line=at, key=name) from None


def complete(model: str, values: dict[str, Value], changes: dict[str, Value]) -> dict[str, Value]:
    """Return values with changes on top, spread `latency`, and check that together they make a device."""
    merged = dict(values)
    latency = changes.get("latency")
    if latency is not None and model == "nvme":
        for key in ("read", "write", "trim"):
            merged[key] = latency
        if "cache" in merged or "cache" in changes:
            merged["cache_write"] = latency
    for key, value in changes.items():
        if key != "latency" or model == "null":
            merged[key] = value
    if model == "null" and isinstance(latency, Latency) and not latency.is_fixed:
        raise ConfigError("latency: a null device takes one time, as null_blk does")
    missing = [key for key in REQUIRED[model] if key not in merged]
    if missing:
        raise ConfigError(f"a {model} device needs {', '.join(missing)}")
    if "cache" in merged and ("drain_mib_s" not in merged or "cache_write" not in merged):
        raise ConfigError("a cache needs cache_write and drain_mib_s")
    if "cache" not in merged and ("drain_mib_s" in merged or "cache_write" in merged):
        raise ConfigError("cache_write and drain_mib_s need a cache (its size)")
    if number(merged, "seek_min") > number(merged, "seek_max"):
        raise ConfigError("seek_min is above seek_max")
    if 0 < 1024 * number(merged, "max_sectors_kb") < number(merged, "lbs"):
        raise ConfigError("max_sectors_kb is less than one logical block")
    if number(merged, "fua") and not number(merged, "write_cache"):
        raise ConfigError("fua without write_cache means nothing")
    return merged


def number(values: dict[str, Value], key: str, default: int = 0) -> int:
    """Return the number at key, or the default."""
    value = values.get(key)
    return value if isinstance(value, int) else default
