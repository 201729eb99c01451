"""The runs of tests/golden: their words, and (run as a program) everything that they print, in every format."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from blktwin.cli import main

FOLDER = Path(__file__).parent / "golden"
CASES = sorted(FOLDER.glob("*.cmd"))


def words_of(case: Path) -> list[str]:
    """Return the words of a .cmd file."""
    lines = [line for line in case.read_text().splitlines() if not line.startswith("#")]
    return shlex.split(" ".join(lines))


def print_all() -> None:
    """Print every run."""
    for case in CASES:
        words = words_of(case)
        code = main([words[0], "--output-format=normal,terse,json+", *words[1:]])
        print(f"-- {case.stem}: exit {code}")


if __name__ == "__main__":
    print_all()
    sys.exit(0)
