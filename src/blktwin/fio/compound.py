"""Reads the values that have a small language of their own: rw=, bssplit=, random_distribution=, filename=."""

from __future__ import annotations

import re
from functools import lru_cache

from blktwin.errors import ConfigError
from blktwin.fio.spec import Distribution
from blktwin.fio.values import read_bytes

ENTRIES_MAX = 64
_FLOAT = re.compile(r"[ \t]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
STEP_MAX = 1 << 61
"""Added to any offset it stays within 63 bits."""
_COLON = re.compile(r"(?<!\\):")
ZIPF_THETA_MAX = 16
"""Beyond it the powers of a large file leave the range of a double; all but one I/O in 65536 hit one block already."""
PARETO_MIN = 1e-9
_DEFAULTS = {"zipf": 1.1, "pareto": 0.2, "normal": 0.0}
Split = tuple[tuple[int, int], ...]
Distributions = tuple[Distribution, Distribution, Distribution]


def pattern(text: str, kb_base: int) -> tuple[str, int, int]:
    """Read rw=: the pattern, the N of randread:N (0 if not given), the bytes of read:8k."""
    word, _, postfix = text.partition(":")
    word = "rw" if word == "readwrite" else word
    postfix = postfix.strip()
    if not postfix:
        return word, 0, 0
    if word.startswith("rand"):
        match = re.match(r"\d+", postfix)
        if match is None or not 0 < int(postfix[: min(match.end(), 12)]) <= 2**31 - 1:
            raise ConfigError(f"{postfix!r} is not a number of I/Os")
        return word, int(match.group()), 0
    number, _ = read_bytes(postfix, kb_base)
    if number.percent or number.zones:
        raise ConfigError(f"{postfix!r} is not a number of bytes")
    if abs(number.value) > STEP_MAX:
        raise ConfigError(f"{postfix!r} is too big: at most {STEP_MAX} is possible")
    return word, 0, number.value


def split_directions(text: str) -> tuple[str, str, str]:
    """Split read,write,trim texts: one counts for all, two give trim the second, an empty one changes nothing."""
    texts = text.split(",")
    if len(texts) == 1:
        return texts[0], texts[0], texts[0]
    return texts[0], texts[1], texts[2] if len(texts) > 2 else texts[1]


def block_split(text: str, kb_base: int) -> Split:
    """Read one direction of bssplit=: (bytes, percent) in fio's order (by share), made to add to 100.

    Entries without a share divide what is left. As in fio, what is missing goes to the largest share and what is
    over 100 is never reached.
    """
    entries: list[tuple[int, int | None]] = []
    for item in text.split(":"):
        if not item:
            break
        size_text, slash, share_text = item.partition("/")
        number, _ = read_bytes(size_text, kb_base)
        if number.percent or number.zones or number.value < 1:
            raise ConfigError(f"{size_text!r} is not a block size")
        share = _share(share_text) if slash else None
        entries.append((number.value, share))
    if len(entries) > ENTRIES_MAX:
        raise ConfigError(f"{len(entries)} block sizes are too many: at most {ENTRIES_MAX} are possible")
    given = sum(share for _, share in entries if share is not None)
    missing = sum(1 for _, share in entries if share is None)
    if given > 100 and missing:
        raise ConfigError(f"percentages add to {given}, more than 100")
    rest = (100 - given) // missing if missing else 0
    shares = [(size, rest if share is None else share) for size, share in entries]
    return _complete(sorted(shares, key=lambda entry: entry[1]))


def _share(text: str) -> int | None:
    """A percentage; fio takes none, zero and words for "not given", and anything above 100 for 100."""
    match = re.match(r"\d{1,6}", text)
    return min(int(match.group()), 100) or None if match else None


def _complete(shares: list[tuple[int, int]]) -> Split:
    left = 100
    out = []
    for at, (size, share) in enumerate(shares):
        used = left if at == len(shares) - 1 else min(share, left)
        left -= used
        out.append((size, used))
    return tuple(out)


def distributions(text: str, kb_base: int) -> Distributions:
    """Read random_distribution= for read, write and trim.

    Differs: fio 3.33 documents zones per direction (`zoned:60/10:40/90,100/100`) but rejects them; they work here.
    """
    kind, colon, rest = text.partition(":")
    if kind == "random":
        return Distribution(), Distribution(), Distribution()
    if kind in ("zoned", "zoned_abs"):
        if not colon:
            raise ConfigError(f"{kind} needs zones, such as {kind}:60/10:40/90")
        read, write, trim = (_zones(kind, part, kb_base) for part in split_directions(rest))
        return read, write, trim
    if kind not in _DEFAULTS:
        raise ConfigError(f"{text!r} is not one of random zipf pareto normal zoned zoned_abs")
    theta_text, _, center_text = rest.partition(":")
    theta = _float(theta_text) if theta_text else _DEFAULTS[kind]
    center = _float(center_text) if center_text else -1.0
    if center_text and not 0 <= center <= 1:
        raise ConfigError(f"center {center_text} is out of range: 0 to 1 is possible")
    if kind == "zipf" and (theta == 1.0 or not 0 <= theta <= ZIPF_THETA_MAX):
        raise ConfigError(f"zipf theta {theta:g} is not possible: 0 to {ZIPF_THETA_MAX}, but not 1")
    if kind == "pareto" and not PARETO_MIN <= theta < 1:
        raise ConfigError(f"pareto input {theta:g} is out of range: between 0 and 1, and not below {PARETO_MIN:g}")
    if kind == "normal" and not 0 <= theta < 100:
        raise ConfigError(f"normal deviation {theta:g} is out of range: 0 to below 100 percent")
    one = Distribution(kind, theta, center)
    return one, one, one


def _float(text: str) -> float:
    match = _FLOAT.match(text)
    if match is None:
        raise ConfigError(f"{text!r} is not a number")
    return float(match.group(1))


def _zones(kind: str, text: str, kb_base: int) -> Distribution:
    zones: list[tuple[int, int | None]] = []
    for item in text.split(":"):
        if not item:
            break
        access_text, slash, size_text = item.partition("/")
        access, _ = read_bytes(access_text, kb_base)
        size: int | None
        if kind == "zoned":
            size = _share(size_text) if slash else None
        else:
            number, _ = read_bytes(size_text, kb_base) if slash else (None, "")
            size = number.value if number else 0
            if size < 0:
                raise ConfigError(f"{size_text!r} is too small: at least 0 is needed")
        zones.append((access.value, size))
    if not zones:
        return Distribution()
    if len(zones) > 256:
        raise ConfigError(f"{len(zones)} zones are too many: at most 256 are possible")
    total = sum(access for access, _ in zones)
    if total != 100 or any(access < 0 for access, _ in zones):
        raise ConfigError(f"access percentages of the zones add to {total}, not 100")
    given = sum(size for _, size in zones if size is not None)
    if kind == "zoned" and given > 100:
        raise ConfigError(f"size percentages of the zones add to {given}, more than 100")
    if given > STEP_MAX:
        raise ConfigError(f"sizes of the zones add to {given}, more than {STEP_MAX}")
    missing = sum(1 for _, size in zones if size is None)
    rest = (100 - given) // missing if missing else 0
    return Distribution(kind, zones=tuple((access, rest if size is None else size) for access, size in zones))


@lru_cache(maxsize=16)
def file_names(text: str) -> tuple[str, ...]:
    """Split filename= or directory= at colons; a backslash keeps the colon that follows it."""
    names = [part.replace("\\:", ":") for part in _COLON.split(text)]
    return tuple(name for name in names if name)
