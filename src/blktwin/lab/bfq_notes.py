"""What is known about each BFQ row that misses its limit: for docs/accuracy.md, from the decision log."""

from __future__ import annotations

NOTES: dict[tuple[str, str, str], str] = {}
"""By table ("scenarios", "device times", "weights", "rows"), kernel or table of weights, and row."""
