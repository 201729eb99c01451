"""Numbers as fio writes them: 66.0MiB/s, 16.9k, the time unit of a latency line, dates, percent of a total."""

from __future__ import annotations

import time
from typing import Final

DECIMAL_PREFIXES: Final = ("", "k", "M", "G", "T", "P", "E")
BINARY_PREFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
FIO_RELEASE: Final = "3.33"
"""The fio whose output this is."""


def scaled(number: int, digits: int, binary: bool, unit: str = "") -> str:
    """Write number with a prefix so that it needs at most digits characters (a decimal point counts as one).

    number: >= 0. unit: "", "B" or "B/s". 66_000_000, 4, True, "B/s" -> "62.9MiB/s".
    """
    prefixes = BINARY_PREFIXES if binary else DECIMAL_PREFIXES
    thousand = 1024 if binary else 1000
    step = 0
    rest = 0
    while len(str(number)) > digits and step < len(prefixes):
        number, rest = divmod(number, thousand)
        step += 1
    prefix = prefixes[step] if step < len(prefixes) else ""
    decimals = digits - len(str(number)) - 1
    if not step:
        return f"{number}{prefix}{unit}"
    if decimals < 1:
        return f"{number + (rest >= thousand // 2)}{prefix}{unit}"
    fraction = f"{rest / thousand:.{decimals}f}"
    return f"{number + (fraction[0] == '1')}.{fraction[2:]}{prefix}{unit}"


def both_ways(number: int, digits: int, unit: str) -> tuple[str, str]:
    """Write number with binary and with decimal prefixes."""
    return scaled(number, digits, True, unit), scaled(number, digits, False, unit)


def latency_unit(low: int, high: int, deviation: float) -> tuple[str, int]:
    """Return fio's unit for a latency line and its size in ns: ("nsec", 1), ("usec", 1000) or ("msec", 1000000)."""
    if low > 2_000_000 and high > 99_999_999 and deviation > 1_000_000.0:
        return "msec", 1_000_000
    if low > 2000 and high > 99_999 and deviation > 1000.0:
        return "usec", 1000
    return "nsec", 1


def date(epoch_ms: int) -> str:
    """Return a Unix time (ms) as ctime writes it, in UTC: the same bytes on every machine."""
    return time.asctime(time.gmtime(epoch_ms // 1000))


def version(blktwin_version: str) -> str:
    """Return the value of "fio version"."""
    return f"fio-{FIO_RELEASE}-blktwin-{blktwin_version}"


def shares(counts: list[int], total: int, floor: float) -> list[float]:
    """Return counts in percent of total; what happened at all is at least floor percent. All 0 when total is 0."""
    if not total:
        return [0.0] * len(counts)
    return [max(count / total * 100.0, floor) if count else 0.0 for count in counts]


def percent_of_group(mean_kib: float, group_bw: int) -> float:
    """Return a mean bandwidth (KiB/s) in percent of the group's (bytes/s), at most 100."""
    if group_bw <= 1024:
        return 100.0
    return min(100.0, int(mean_kib) * 100.0 / (group_bw / 1024.0))
