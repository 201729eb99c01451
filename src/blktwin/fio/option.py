"""One row of the table of fio's options; the rows are in options_io.py, options_run.py and options_engine.py."""

from __future__ import annotations

from dataclasses import dataclass

MODELLED = "modelled"
NO_EFFECT = "no effect"
LATER = "not yet"
REFUSED = "refused"
STATUSES = (MODELLED, NO_EFFECT, LATER, REFUSED)

KINDS = {
    "int": "integer",
    "long": "integer (64 bits)",
    "size": "bytes or percent",
    "sizerange": "bytes or range",
    "time_s": "time, default s",
    "time_us": "time, default us",
    "timerange": "time or range, default s",
    "bool": "0 or 1",
    "flag": "bare, or 0/1",
    "choice": "one of",
    "str": "text",
    "optstr": "bare, or text",
    "files": "names",
    "floats": "numbers, a:b:c",
    "ranges": "min-max",
    "bssplit": "size/percent:...",
    "distribution": "kind[:parameters]",
    "rw": "pattern[:N]",
    "engine": "engine name",
}
"""How values of each kind are written; values.py reads them."""


@dataclass(frozen=True, slots=True)
class Option:
    """What fio knows of an option (name, kind, default, limits) and what blktwin does with it (status, reason).

    parts: 3 when read,write,trim values may differ. order: fio applies higher ones first within a section.
    engines: empty when every engine has the option. since: the fio version that brought it, if newer than 3.33.
    """

    name: str
    kind: str
    default: str
    status: str
    reason: str
    alias: str = ""
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    parts: int = 1
    order: int = 0
    engines: tuple[str, ...] = ()
    since: str = ""

    @property
    def takes_value(self) -> bool:
        """False when the option may stand alone (`group_reporting`)."""
        return self.kind not in ("flag", "optstr")


def option(
    name: str,
    kind: str,
    default: str,
    status: str,
    reason: str,
    *,
    alias: str = "",
    choices: str = "",
    low: float | None = None,
    high: float | None = None,
    parts: int = 1,
    order: int = 0,
    engines: str = "",
    since: str = "",
) -> Option:
    """Make a row; choices and engines are written with spaces between."""
    assert kind in KINDS, name
    assert status in STATUSES, name
    words, names = tuple(choices.split()), tuple(engines.split())
    return Option(name, kind, default, status, reason, alias, words, low, high, parts, order, names, since)
