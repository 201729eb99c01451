"""The one table that `make bench` prints: what, ours, peer, ratio, target, met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

AT_LEAST = ">="
AT_MOST = "<="
HEAD = ("what", "ours", "peer", "ratio", "target", "met")


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the ratio, or (is_ratio False) on our own number."""

    bound: str
    value: float
    is_ratio: bool = True

    def is_met(self, ours: float, ratio: float | None) -> bool:
        """Say whether the number that counts is within the bound."""
        number = ratio if self.is_ratio else ours
        if number is None:
            return False
        return number >= self.value if self.bound == AT_LEAST else number <= self.value


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a number of ours and, where there is one, that of a peer; ratio is ours by the peer's."""

    what: str
    unit: str
    ours: float | None
    peer: float | None = None
    ratio: float | None = None
    target: Target | None = None
    note: str = ""
    """Why a number is missing."""

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the six columns."""
        ours = "left out" if self.ours is None else quantity(self.ours, self.unit)
        peer = "-" if self.peer is None else quantity(self.peer, self.unit)
        ratio = "-" if self.ratio is None else times(self.ratio)
        return self.what, ours, peer, ratio, self.goal(), self.verdict()

    def goal(self) -> str:
        """Return the target's text."""
        if self.target is None:
            return "-"
        value = times(self.target.value) if self.target.is_ratio else quantity(self.target.value, self.unit)
        return f"{self.target.bound} {value}"

    def verdict(self) -> str:
        """Return met, not met, or why neither."""
        if self.target is None:
            return "-"
        if self.ours is None or (self.target.is_ratio and self.ratio is None):
            return "not measured"
        return "met" if self.target.is_met(self.ours, self.ratio) else "NOT MET"


def quantity(value: float, unit: str) -> str:
    """Return value with its unit: three digits, k or M for rates."""
    if unit != "IO/s":
        return f"{value:.1f} {unit}"
    for limit, scale, letter in ((999_500.0, 1e6, "M"), (999.5, 1e3, "k")):
        if value >= limit:
            return f"{three_digits(value / scale)} {letter}/s"
    return f"{three_digits(value)} /s"


def times(value: float) -> str:
    """Return a ratio."""
    return f"{three_digits(value)}x"


def three_digits(value: float) -> str:
    """Return value with three significant digits, none of them an exponent."""
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}"


def render(rows: Sequence[Row]) -> str:
    """Return the table, columns aligned, and below it why something is missing."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    rule = tuple("-" * width for width in widths)
    text = []
    for line in (HEAD, rule, *lines[1:]):
        cells = [
            cell.ljust(width) if name in ("what", "met") else cell.rjust(width)
            for name, cell, width in zip(HEAD, line, widths, strict=True)
        ]
        text.append("  ".join(cells).rstrip())
    text += [f"{row.what}: {row.note}" for row in rows if row.note]
    return "\n".join(text) + "\n"
