"""Reads sizes, times, speeds and latency distributions as the device tables and --device write them.

Sizes as fio's: k, m, g, t, p are powers of 1024, with or without b or ib behind. Times always carry their unit.
Every function raises ConfigError with one short sentence and no place; the caller adds the place.
"""

from __future__ import annotations

import re
from typing import Final

from blktwin.errors import ConfigError
from blktwin.sim.devices.latency import Latency, fixed, lognormal, normal, uniform

NUMBER: Final = r"([0-9]{1,18}(?:\.[0-9]{1,9})?)"
SIZE: Final = re.compile(NUMBER + r"\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)
TIME: Final = re.compile(NUMBER + r"\s*(ns|us|ms|s)")
CALL: Final = re.compile(r"([a-z]+)\(([^,()]+),([^,()]+)\)")
LATENCY_MAX_NS: Final = 10_000_000_000_000
UNITS_NS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def size_bytes(text: str) -> int:
    """Return the bytes of "200g", "128k", "4096"."""
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"'{text}' is not a size such as 200g or 128k")
    return exact(match[1], int(1024 ** " kmgtp".index(match[2].lower() or " ")))


def time_ns(text: str) -> int:
    """Return the ns of "100us", "1.5ms"; 0 needs no unit."""
    text = text.strip()
    if text == "0":
        return 0
    match = TIME.fullmatch(text)
    if match is None:
        raise ConfigError(f"'{text}' is not a time: a number with ns, us, ms or s, such as 100us")
    return exact(match[1], UNITS_NS[match[2]])


def exact(number: str, unit: int) -> int:
    """Return number times unit, rounded down, without a float between."""
    whole, _, part = number.partition(".")
    return int(whole) * unit + (int(part) * unit // int(10 ** len(part)) if part else 0)


def number(text: str) -> float:
    """Return the value of "0.2" or "20"."""
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(f"'{text.strip()}' is not a number") from None
    return value


def latency_ns(part: str, text: str) -> int:
    """Return the ns of a part of a latency; beyond LATENCY_MAX_NS the tail of a distribution would leave 63 bits."""
    ns = time_ns(part)
    if ns > LATENCY_MAX_NS:
        raise ConfigError(f"'{text}' is out of range: at most {LATENCY_MAX_NS // UNITS_NS['s']}s")
    return ns


def latency(text: str) -> Latency:
    """Return the distribution of "80us", "uniform(80us, 20%)", "normal(80us, 5us)" or "lognormal(80us, 0.2)"."""
    text = text.strip()
    if "(" not in text:
        return fixed(latency_ns(text, text), text)
    match = CALL.fullmatch(text)
    if match is None or match[1] not in ("uniform", "normal", "lognormal"):
        raise ConfigError(
            f"'{text}' is not a latency: 80us, uniform(80us, 20%), normal(80us, 5us) or lognormal(80us, 0.2)"
        )
    mean_ns = latency_ns(match[2], text)
    if match[1] == "normal":
        return normal(mean_ns, latency_ns(match[3], text), text)
    if match[1] == "lognormal":
        sigma = number(match[3])
        if not 0 <= sigma <= 3:
            raise ConfigError(f"'{text}': the sigma of a lognormal is 0 to 3")
        return lognormal(mean_ns, sigma, text)
    percent = number(match[3].strip().removesuffix("%"))
    if not 0 <= percent <= 100:
        raise ConfigError(f"'{text}': the spread of a uniform is 0 to 100%")
    return uniform(mean_ns, percent, text)


def rate_bytes(text: str) -> int:
    """Return the bytes a second of a number of MiB/s, such as "550" or "332.6"."""
    if not re.fullmatch(NUMBER, text.strip()):
        raise ConfigError(f"'{text.strip()}' is not a number of MiB/s")
    return exact(text.strip(), 1 << 20)
