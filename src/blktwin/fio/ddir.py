"""fio's data directions, as indexes; compiled, so that the hot path sees plain numbers."""

from __future__ import annotations

from typing import Final

READ: Final = 0
WRITE: Final = 1
TRIM: Final = 2
SYNC: Final = 3
"""fsync; not a direction of JobSpec's triples."""
DATASYNC: Final = 4
"""fdatasync: fio keeps its latency, but does not count it among the issued."""
