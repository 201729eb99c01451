"""What an error about a table adds: the near match, and the line."""

from __future__ import annotations

from blktwin.errors import near as near


def line_of(text: str, key: str, start: int = 0) -> int:
    """Return the number of the first line after line `start` that begins with key, or is [name]; 0: none."""
    for number, line in enumerate(text.splitlines(), 1):
        if number > start and line.split("=")[0].strip().strip('"') == key:
            return number
    return 0
