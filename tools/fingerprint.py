"""Write the list of what the package is built from, only if it changed, so that make notices deleted and new files.

python tools/fingerprint.py FILE: paths below src/ and the build's settings, sorted. Edits are seen by their times.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SUFFIXES = (".py", ".toml", ".fio", ".typed")


def fingerprint(root: Path) -> str:
    """List the package's files and the settings that change a build."""
    files = sorted(p.relative_to(root).as_posix() for p in (root / "src").rglob("*") if p.suffix in SUFFIXES)
    settings = [f"interpreted={os.environ.get('BLKTWIN_COMPILE') == '0'}", f"CC={os.environ.get('CC', '')}"]
    return "\n".join([*settings, *files]) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    text = fingerprint(Path(__file__).parents[1])
    if not target.exists() or target.read_text() != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
