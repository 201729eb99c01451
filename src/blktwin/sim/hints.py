"""What an error about a table adds: the near match, and the line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near(word: str, names: Iterable[str]) -> str:
    """Return "; did you mean X?" for the name closest to word, "" when none is close."""
    found = difflib.get_close_matches(word, list(names), 1, 0.6)
    return f"; did you mean {found[0]}?" if found else ""


def line_of(text: str, key: str, start: int = 0) -> int:
    """Return the number of the first line after line `start` that begins with key, or is [name]; 0: none."""
    for number, line in enumerate(text.splitlines(), 1):
        if number > start and line.split("=")[0].strip().strip('"') == key:
            return number
    return 0
