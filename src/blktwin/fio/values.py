"""Reads one option value as fio reads it: numbers with units, times, ranges, lists, read,write,trim triples.

Rules (checked against fio 3.33): digits, then a unit, and whatever follows the unit is not looked at. What fio would
read in silence although the user surely meant something else comes back as an `odd` remark, never as an error.
Knows nothing of files, sections or jobs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from blktwin.errors import ConfigError
from blktwin.fio.arithmetic import evaluate
from blktwin.fio.option import Option

UINT_MAX = 2**32 - 1
INT64_MAX = 2**63 - 1
FLOATS_MAX = 20
TEXT_MAX = 256
TIME_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_TIME_WORDS = {**TIME_UNITS_US, "": 1, "usec": 1, "msec": 1_000, "sec": 1_000_000}
_INTEGER = re.compile(r"[ \t]*([+-]?)(0[xX][0-9a-fA-F]+|\d+)")
_FLOAT = re.compile(r"[ \t]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_LAST_WINS = ("rwmixread", "rwmixwrite")


@dataclass(frozen=True, slots=True)
class Number:
    """A number of bytes, of percent (percent), or of zones (zones)."""

    value: int
    percent: bool = False
    zones: bool = False


Range = tuple[int, int]
Parts = tuple[int | None, int | None, int | None]
Ranges = tuple[Range | None, Range | None, Range | None]
Value = int | str | Number | Range | Parts | Ranges | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value in the shape its kind asks for, and a remark when fio's reading of the text is surprising."""

    value: Value
    odd: str = ""


def byte_multiplier(unit: str, kb_base: int) -> tuple[int, bool]:
    """Say what a unit of bytes stands for, and whether fio knew all of it (an unknown one counts 1).

    kb_base 1024: k and ki are 1024, kib is 1000. kb_base 1000: k and ki are 1000, kib is 1024.
    """
    word = unit.lower()
    power = "kmgtp".find(word[0]) + 1 if word else 0
    if not power:
        return 1, word in ("", "b")
    inverted = word[1:3] == "ib"
    base = kb_base if not inverted else 1024 if kb_base == 1000 else 1000
    return int(base**power), word[1:] in ("", "b", "ib")


def read_bytes(text: str, kb_base: int) -> tuple[Number, str]:
    """Read a number with a unit of bytes, % or z, or an expression in parentheses; and the remark ("" if none)."""
    if text.startswith("("):
        return Number(_expression(text, kb_base, time=False)), ""
    match = _INTEGER.match(text)
    if match is None:
        raise ConfigError(f"{text!r} is not a number")
    value = _integer(match)
    rest = text[match.end() :]
    if match.start(1) > 0 and rest:
        return Number(value), f"fio reads this as {value}: a blank before the number hides the unit {rest!r}"
    if match.group(2)[:2] in ("0x", "0X"):
        return Number(value), f"fio reads this as {value}: no unit counts after 0x" if rest else ""
    unit = re.split("[-:,/]", rest, maxsplit=1)[0]
    if unit[:1] == "%":
        return Number(value, percent=True), "" if unit == "%" else f"fio ignores {unit[1:]!r}"
    if unit[:1] in ("z", "Z"):
        return Number(value, zones=True), ""
    factor, known = byte_multiplier(unit, kb_base)
    known = known and (not unit or unit[0].isalpha())
    value *= factor
    if abs(value) > INT64_MAX:
        raise ConfigError(f"{text!r} is too big: at most {INT64_MAX} is possible")
    if unit[1:].lower() == "i" and factor > 1:
        return Number(value), f"fio reads this as {value}: {unit!r} is {unit[0]!r} to it, against its own manual"
    return Number(value), "" if known else f"fio reads this as {value}: {unit!r} is not a unit it knows"


def read_time_us(text: str, default_us: int, kb_base: int = 1024) -> tuple[int, str]:
    """Read a time in us; default_us is what a bare number counts in (expressions count in us)."""
    if text.startswith("("):
        return _expression(text, kb_base, time=True), ""
    match = _INTEGER.match(text)
    if match is None:
        raise ConfigError(f"{text!r} is not a time")
    value = _integer(match)
    unit = re.sub(r"\A[0-9+-]*", "", text).lower()
    if not unit[:1].isalpha() or not unit.isascii():
        odd = f"fio ignores {unit!r}" if unit else ""
        return value * default_us, odd
    for prefix in ("us", "ms"):
        if unit.startswith(prefix):
            return value * TIME_UNITS_US[prefix], ""
    if unit in TIME_UNITS_US:
        return value * TIME_UNITS_US[unit], ""
    return value, f"fio reads this as {value} us: {unit!r} is not a unit it knows"


def _integer(match: re.Match[str]) -> int:
    digits = match.group(2)
    if len(digits) > 40:
        raise ConfigError(f"{digits[:12]}... is too big")
    value = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
    if value > INT64_MAX:
        raise ConfigError(f"{digits} is too big")
    return -value if match.group(1) == "-" else value


def _expression(text: str, kb_base: int, *, time: bool) -> int:
    if time:
        return evaluate(text, lambda unit: _TIME_WORDS.get(unit.lower()))

    def bytes_of(unit: str) -> int | None:
        factor, known = byte_multiplier(unit, kb_base)
        return factor if known or unit[1:].lower() == "i" else None

    return evaluate(text, bytes_of)


def split_parts(text: str) -> list[str]:
    """Split at the separators of read,write,trim: the next comma, else the next : or - (none inside parentheses).

    Each part keeps what follows up to the next comma, since fio looks for the unit there: `1s-5s` is `1s-5s`, `5s`.
    """
    parts = []
    rest = text
    while True:
        hidden = re.sub(r"\([^()]*\)", lambda m: "_" * len(m.group()), rest)
        hidden = re.sub(r"\(.*\)", lambda m: "_" * len(m.group()), hidden)
        at = hidden.find(",")
        parts.append(rest[:at] if at >= 0 else rest)
        if at < 0:
            at = hidden.find(":")
        if at < 0:
            at = hidden.find("-")
        if at < 0:
            return parts
        rest = rest[at + 1 :]


def parse(option: Option, text: str | None, kb_base: int = 1024) -> Parsed:
    """Read text as option's kind; None is an option without "=".

    Returns int (int, long, time in us, bool, flag), Number (size), (low, high) (ranges of size and time), three
    int-or-None (parts 3), three (low, high)-or-None (bsrange), floats, or the text itself.
    Errors: ConfigError without file, line and key: the caller adds them.
    """
    kind = option.kind
    if text is None:
        if kind == "flag":
            return Parsed(1)
        if kind == "optstr":
            return Parsed("")
        raise ConfigError("needs a value")
    if kind in ("bool", "flag"):
        return _parse_bool(option, text)
    if kind in ("int", "long", "time_s", "time_us", "timerange", "size", "sizerange"):
        return _parse_numbers(option, text, kb_base)
    if kind in ("choice", "rw"):
        word = text.partition(":")[0]
        if word not in option.choices:
            raise ConfigError(f"{text!r} is not one of {' '.join(option.choices)}")
        return Parsed(text)
    if kind == "floats":
        return _parse_floats(option, text)
    if kind == "ranges":
        return _parse_ranges(text, kb_base)
    if not text and kind not in ("bssplit", "optstr"):
        raise ConfigError("needs a value")
    return Parsed(text)


def _parse_bool(option: Option, text: str) -> Parsed:
    match = _INTEGER.match(text)
    if match is None:
        raise ConfigError(f"{text!r} is not 0 or 1")
    value = _integer(match)
    if option.kind == "bool" and value not in (0, 1):
        raise ConfigError(f"{text!r} is not 0 or 1")
    return Parsed(int(value != 0), f"fio ignores {text[match.end() :]!r}" if match.end() < len(text) else "")


def _parse_numbers(option: Option, text: str, kb_base: int) -> Parsed:
    """Numbers: one, two or three of them, each within the option's limits."""
    if len(text) > TEXT_MAX:
        raise ConfigError(f"a number of {len(text)} characters is too long")
    texts = split_parts(text)
    values: list[Number | None] = []
    odds: list[str] = []
    failure: ConfigError | None = None
    for at, part in enumerate(texts):
        try:
            number, odd = _read_one(option, part, kb_base)
        except ConfigError as error:
            failure = failure or (error if part or len(texts) == 1 else ConfigError("needs a value"))
            values.append(None)
            if part:
                odds.append(f"fio ignores {part!r}")
            continue
        if not (at and option.low is not None and option.low < 0):
            _check_limits(option, number, part)
        values.append(number)
        odds.extend([odd] if odd else [])
    good = [value for value in values if value is not None]
    if not good:
        raise failure or ConfigError("needs a value")
    return Parsed(_shape(option, values, good, odds), "; ".join(dict.fromkeys(odds)))


def _read_one(option: Option, text: str, kb_base: int) -> tuple[Number, str]:
    if not text:
        raise ConfigError("needs a value")
    if option.kind in ("time_s", "time_us", "timerange"):
        us, odd = read_time_us(text, 1 if option.kind == "time_us" else 1_000_000, kb_base)
        return Number(us), odd
    number, odd = read_bytes(text, kb_base)
    if number.zones and option.kind != "size":
        raise ConfigError("the unit z (zones) is not possible here")
    if number.percent and option.kind != "size":
        raise ConfigError("a percentage is not possible here")
    return number, odd


def _check_limits(option: Option, number: Number, text: str) -> None:
    value = number.value
    low = option.low or 0
    high = option.high if option.high is not None else UINT_MAX if option.kind == "int" else INT64_MAX
    if number.percent:
        low, high = 0, 100
    if value < low:
        raise ConfigError(f"{text!r} is too small: at least {low:g} is needed")
    if value > high:
        raise ConfigError(f"{text!r} is too big: at most {int(high)} is possible")


def _shape(option: Option, values: list[Number | None], good: list[Number], odds: list[str]) -> Value:
    if option.parts == 3:
        ints = [None if v is None else v.value for v in values[:3]]
        ints += [ints[-1]] * (3 - len(ints))
        return ints[0], ints[1], ints[2]
    if option.kind in ("timerange", "sizerange"):
        first, last = good[0].value, good[-1].value
        return min(first, last), max(first, last)
    signed = option.low is not None and option.low < 0
    if len(values) > 1 and not signed:
        odds.append("fio uses one of these values only")
    chosen = good[-1] if option.kind == "size" or option.name in _LAST_WINS else good[0]
    return chosen if option.kind == "size" else chosen.value


def _parse_floats(option: Option, text: str) -> Parsed:
    numbers: list[float] = []
    odd = ""
    for part in text.split(":"):
        match = _FLOAT.match(part)
        if match is None:
            raise ConfigError(f"{part!r} is not a number")
        value = float(match.group(1))
        if (option.low is not None and value < option.low) or (option.high is not None and value > option.high):
            raise ConfigError(f"{part!r} is out of range: {option.low:g} to {option.high:g} is possible")
        if match.end() < len(part):
            odd = f"fio ignores {part[match.end() :]!r}"
        numbers.append(value)
    if len(numbers) > FLOATS_MAX:
        raise ConfigError(f"{len(numbers)} numbers are too many: at most {FLOATS_MAX} are possible")
    return Parsed(tuple(numbers), odd)


def _parse_ranges(text: str, kb_base: int) -> Parsed:
    ranges: list[Range | None] = []
    odds: list[str] = []
    for part in text.split(","):
        if not part:
            ranges.append(None)
            continue
        low_text, separator, high_text = part.partition("-" if "-" in part else ":")
        if not separator:
            raise ConfigError(f"{part!r} is not a range such as 4k-64k")
        (low, odd_low), (high, odd_high) = read_bytes(low_text, kb_base), read_bytes(high_text, kb_base)
        if min(low.value, high.value) < 1 or low.percent or high.percent:
            raise ConfigError(f"{part!r}: a block size of at least 1 byte is needed")
        ranges.append((min(low.value, high.value), max(low.value, high.value)))
        odds.extend(odd for odd in (odd_low, odd_high) if odd)
    if not any(ranges):
        raise ConfigError("needs a range such as 4k-64k")
    ranges = ranges[:3]
    ranges += [ranges[-1]] * (3 - len(ranges))
    return Parsed((ranges[0], ranges[1], ranges[2]), "; ".join(odds))


def is_default(option: Option, value: Value) -> bool:
    """Say whether a value is what fio uses anyway, so that an option that is not modelled does no harm."""
    if option.kind in ("str", "optstr", "files", "bssplit") and not option.default:
        return False
    if not option.default:
        return value in (0, Number(0), (0, 0), (0, 0, 0))
    if isinstance(value, str):
        same = {"none": "0"}
        return same.get(value, value) == same.get(option.default, option.default)
    return parse(option, option.default).value == value
