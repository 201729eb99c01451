"""What is known about each BFQ row that misses its limit: for docs/accuracy.md, from the decision log."""

from __future__ import annotations

MAIL = "the mail's ratio lies above that of the weights (2.33, 1.5); the model's is that of the weights."
NOTES: dict[tuple[str, str, str], str] = {
    ("weights", "depth 1", "1:1, 10:90"): "the kernel's window of 2.5 s holds two of the lighter group's slots of 124 "
    "ms, and half a slot is 25%; the model's window is twice as long and near the weights' 9.",
    ("weights", "mail, before", "30:70"): MAIL,
    ("weights", "mail, before", "40:60"): MAIL,
    ("weights", "mail, after", "30:70"): MAIL,
    ("weights", "mail, after", "40:60"): MAIL,
}
"""By table ("scenarios", "device times", "weights", "rows"), kernel or table of weights, and row."""
