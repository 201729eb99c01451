"""Every key of a device, in one table: what profiles.toml and --device may say, with kind, range and meaning."""

from __future__ import annotations

from typing import Final

from blktwin.errors import ConfigError
from blktwin.sim.devices import quantity
from blktwin.sim.devices.latency import Latency
from blktwin.sim.hints import near

Value = int | str | Latency

MODELS: Final = ("null", "nvme", "hdd")
SIZE: Final = "size"
TIME: Final = "time"
LATENCY: Final = "latency"
COUNT: Final = "whole number"
FLAG: Final = "flag"
RATE: Final = "MiB/s"
WORD: Final = "word"
SECOND_NS: Final = 1_000_000_000
MIB: Final = 1 << 20
EIB: Final = 1 << 60


class Option:
    """One key: its kind, the range of its value (in the unit it is kept in), its models, its meaning."""

    def __init__(self, name: str, kind: str, low: int, high: int, models: str, text: str) -> None:
        self.name: str = name
        self.kind: str = kind
        self.low: int = low
        self.high: int = high
        self.models: tuple[str, ...] = tuple(models.split())
        self.text: str = text


ANY: Final = "null nvme hdd"
OPTION_LIST: Final = (
    Option("size", SIZE, MIB, 4 * EIB, ANY, "capacity"),
    Option("lbs", SIZE, 512, 65536, ANY, "logical block size"),
    Option("depth", COUNT, 1, 10240, ANY, "tags of one hardware queue"),
    Option("queues", COUNT, 1, 4096, ANY, "hardware queues; never more than CPUs"),
    Option("rotational", FLAG, 0, 1, ANY, "queue/rotational"),
    Option("write_cache", FLAG, 0, 1, ANY, "a volatile cache that flushes are sent for (queue/write_cache)"),
    Option("fua", FLAG, 0, 1, ANY, "the device takes FUA writes (queue/fua)"),
    Option("max_sectors_kb", COUNT, 4, 32768, ANY, "largest request in KiB"),
    Option("max_segments", COUNT, 1, 65535, ANY, "most segments of a request"),
    Option("scheduler", WORD, 0, 0, ANY, "queue/scheduler; the kernel's default if absent"),
    Option("nr_requests", COUNT, 4, 10240, ANY, "queue/nr_requests; the kernel's default if absent"),
    Option("nomerges", COUNT, 0, 2, ANY, "queue/nomerges"),
    Option("rq_affinity", COUNT, 0, 2, ANY, "queue/rq_affinity"),
    Option("latency", LATENCY, 0, 100 * SECOND_NS, "null nvme", "time of every request; of an nvme: read, write, trim"),
    Option("overhead", TIME, 0, SECOND_NS, "nvme hdd", "the controller's time, added to each command"),
    Option("channels", COUNT, 0, 4096, "nvme", "requests served at once; 0: all"),
    Option("read", LATENCY, 0, 100 * SECOND_NS, "nvme", "media time of a read up to 4 KiB"),
    Option("write", LATENCY, 0, 100 * SECOND_NS, "nvme", "media time of an uncached write up to 4 KiB"),
    Option("trim", LATENCY, 0, 100 * SECOND_NS, "nvme", "time of a discard or write-zeroes"),
    Option("flush", LATENCY, 0, 100 * SECOND_NS, "nvme", "time of a flush beyond the drain of the cache"),
    Option("read_per_kib", TIME, 0, SECOND_NS, "nvme", "what each KiB beyond the first four adds"),
    Option("write_per_kib", TIME, 0, SECOND_NS, "nvme", "what each KiB beyond the first four adds"),
    Option("read_mib_s", RATE, MIB, MIB << 20, "nvme", "ceiling of all reads together"),
    Option("write_mib_s", RATE, MIB, MIB << 20, "nvme", "ceiling of all writes together"),
    Option("iops", COUNT, 10, SECOND_NS, "nvme", "ceiling of all commands together"),
    Option("iops_bytes", SIZE, 4096, MIB << 5, "nvme", "a larger request counts as several commands"),
    Option("cache", SIZE, 4096, EIB, "nvme", "size of the write cache"),
    Option("cache_write", LATENCY, 0, SECOND_NS, "nvme", "time of a write into the cache"),
    Option("drain_mib_s", RATE, MIB, MIB << 20, "nvme", "speed of the cache's way to the media"),
    Option("rpm", COUNT, 1000, 100_000, "hdd", "turns a minute"),
    Option("seek_min", TIME, 0, SECOND_NS, "hdd", "seek to the next track"),
    Option("seek_max", TIME, 0, SECOND_NS, "hdd", "seek across the disk"),
    Option("mib_s", RATE, MIB, MIB << 20, "hdd", "speed off the platter"),
)
OPTIONS: Final = {option.name: option for option in OPTION_LIST}
SCHEDULERS: Final = ("none", "mq-deadline", "kyber", "bfq")
FLAGS: Final = {"0": 0, "1": 1, "true": 1, "false": 0}


def find_option(name: str, model: str) -> Option:
    """Return the option called name if a device of that model has it, else raise ConfigError with the near match."""
    option = OPTIONS.get(name)
    if option is None:
        raise ConfigError("no such key of a device" + near(name, [o.name for o in OPTION_LIST if model in o.models]))
    if model not in option.models:
        raise ConfigError(f"a {model} device has no such key, only {' and '.join(option.models)}")
    return option


def parse_value(option: Option, raw: object) -> Value:
    """Return the value that raw (of TOML, or the text of a command line) stands for, checked against the range."""
    if isinstance(raw, bool):
        text = "1" if raw else "0"
        if option.kind != FLAG:
            raise ConfigError(f"{option.text}: {str(raw).lower()} is not a {option.kind}")
    elif isinstance(raw, (int, float, str)):
        text = str(raw).strip()
    else:
        raise ConfigError(f"{option.text}: a {type(raw).__name__} is not a {option.kind}")
    value = convert(option, text)
    size = int(value.table[-1]) if isinstance(value, Latency) else value
    if isinstance(size, int) and not option.low <= size <= option.high:
        raise ConfigError(f"{text} is out of range: {shown(option, option.low)} to {shown(option, option.high)}")
    if option.name == "lbs" and isinstance(value, int) and value & (value - 1):
        raise ConfigError(f"{text} is not a power of two")
    return value


def convert(option: Option, text: str) -> Value:
    """Return text as a value of the option's kind, range unchecked."""
    kind = option.kind
    if kind == SIZE:
        return quantity.size_bytes(text)
    if kind == TIME:
        return quantity.time_ns(text)
    if kind == LATENCY:
        return quantity.latency(text)
    if kind == RATE:
        return quantity.rate_bytes(text)
    if kind == FLAG:
        if text not in FLAGS:
            raise ConfigError(f"'{text}' is neither 0 nor 1")
        return FLAGS[text]
    if kind == WORD:
        if text not in SCHEDULERS:
            raise ConfigError(f"no scheduler '{text}': {', '.join(SCHEDULERS)}" + near(text, SCHEDULERS))
        return text
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ConfigError(f"'{text}' is not a whole number")
    return int(text)


def shown(option: Option, value: int) -> str:
    """Write an end of a range in the unit that the user writes."""
    kind = option.kind
    if kind in (TIME, LATENCY):
        for unit in ("s", "ms", "us"):
            if value >= quantity.UNITS_NS[unit] and value % quantity.UNITS_NS[unit] == 0:
                return f"{value // quantity.UNITS_NS[unit]}{unit}"
        return f"{value}ns" if value else "0"
    if kind == RATE:
        return str(value // MIB)
    if kind == SIZE:
        for power, unit in ((5, "p"), (4, "t"), (3, "g"), (2, "m"), (1, "k")):
            if value >= 1024**power and value % 1024**power == 0:
                return f"{value // 1024**power}{unit}"
    return str(value)
