"""[expect.VARIANT] of a stack file: figures that others report, to stand beside ours.

[expect.workqueue]
d2c = "13.96ms"
iops = 2281
within = 5             # percent; `blktwin scenario` ends with status 3 beyond that
source = "the mail of 2025-09-22"
"""

from __future__ import annotations

from blktwin.lab.toml_file import Table
from blktwin.lab.toml_values import Place, Reader, read_keys, read_number, read_text, read_time_ns

TIMES = ("lat", "lat-p50", "lat-p99", "d2c", "d2c-p50", "d2c-p99")
"""Metrics in ns."""
RATES = ("iops", "read-mib-s", "write-mib-s")
RATIO = "ratio"
"""IOPS to those of the first variant."""
METRICS = (*RATES, *TIMES, RATIO)
READERS: dict[str, Reader] = {
    **dict.fromkeys((*RATES, RATIO), read_number),
    **dict.fromkeys(TIMES, read_time_ns),
    "within": read_number,
    "source": read_text,
}


def read_expect(place: Place, table: Table) -> dict[str, object]:
    """Return one variant's figures by metric, and `within` and `source`."""
    values = read_keys(place, table, READERS)
    if not any(key in METRICS for key in values):
        raise place.error(f"has no figure: {', '.join(METRICS)}")
    for key in METRICS:
        if key in values and not values[key]:
            raise place.error("must be above 0", key)
    return values
