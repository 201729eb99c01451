"""--output-format: which of fio's formats to print, and all of them in fio's order."""

from __future__ import annotations

from difflib import get_close_matches

from blktwin.errors import UsageError
from blktwin.fio.output_json import render_json
from blktwin.fio.output_normal import render_normal
from blktwin.fio.output_terse import render_terse
from blktwin.fio.results import RunResult

FORMATS = ("normal", "terse", "minimal", "json", "json+")


def parse_formats(text: str) -> list[str]:
    """Return the formats of a comma-separated list; "minimal" is "terse". UsageError names a wrong one."""
    formats = []
    for word in text.split(","):
        name = word.strip()
        if name not in FORMATS:
            near = get_close_matches(name, FORMATS, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(FORMATS)}"
            raise UsageError(f"unknown format {name!r}{hint}", key="output-format")
        formats.append("terse" if name == "minimal" else name)
    return formats


def parse_terse_version(text: str) -> int:
    """Return the version of --terse-version: 2 to 5. UsageError otherwise."""
    if text not in ("2", "3", "4", "5"):
        raise UsageError(f"{text!r} is not a terse version: 2, 3, 4 or 5", key="terse-version")
    return int(text)


def render(result: RunResult, formats: list[str], terse_version: int = 3) -> str:
    """Return the run in all formats asked for: terse, then JSON once, then normal text, as fio orders them."""
    parts = []
    if "terse" in formats:
        parts.append(render_terse(result, terse_version))
    if "json" in formats or "json+" in formats:
        parts.append(render_json(result, "json+" in formats))
    if "normal" in formats:
        parts.append(render_normal(result))
    return "".join(parts)
