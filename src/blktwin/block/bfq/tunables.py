"""The files of queue/iosched: names, units, defaults and ranges as the kernel's, and what a write does.

Kernel: bfq_attrs, block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blktwin.block.bfq.data import NSEC_PER_MSEC, NSEC_PER_USEC, SLICE_IDLE_NS
from blktwin.block.bfq.raising import end_all_wr
from blktwin.block.bfq.rate import calc_max_budget
from blktwin.block.elevator import Tunable
from blktwin.block.jiffies import jiffies_to_msecs, msecs_to_jiffies

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData

INT_MAX: Final = 2147483647
TUNABLES: Final = (
    ("fifo_expire_sync", 125, 1, INT_MAX, "ms"),
    ("fifo_expire_async", 250, 1, INT_MAX, "ms"),
    ("back_seek_max", 16384, 0, INT_MAX, "KiB"),
    ("back_seek_penalty", 2, 1, INT_MAX, ""),
    ("slice_idle", 8, 0, INT_MAX, "ms"),
    ("slice_idle_us", 8000, 0, INT_MAX, "us"),
    ("max_budget", 0, 0, INT_MAX, "sectors"),
    ("timeout_sync", 0, 1, INT_MAX, "ms"),
    ("strict_guarantees", 0, 0, 1, ""),
    ("low_latency", 1, 0, 1, ""),
)
"""Name, default, range, unit; timeout_sync's default is HZ/8 jiffies."""


def make_tunables() -> dict[str, Tunable]:
    """Return the files with their defaults."""
    return {name: Tunable(name, default, low, high, unit) for name, default, low, high, unit in TUNABLES}


def write_tunable(bfqd: BfqData, name: str, value: int, tunables: dict[str, Tunable]) -> None:
    """Do what a write of a checked value to an iosched file does."""
    if name == "fifo_expire_sync":
        bfqd.fifo_expire_sync_ns = value * NSEC_PER_MSEC
    elif name == "fifo_expire_async":
        bfqd.fifo_expire_async_ns = value * NSEC_PER_MSEC
    elif name == "back_seek_max":
        bfqd.back_max_sectors = 2 * value
    elif name == "back_seek_penalty":
        bfqd.back_penalty = value
    elif name == "slice_idle":
        bfqd.slice_idle_ns = value * NSEC_PER_MSEC
    elif name == "slice_idle_us":
        bfqd.slice_idle_ns = value * NSEC_PER_USEC
    elif name == "max_budget":
        bfqd.user_max_budget = value
        bfqd.max_budget = value if value > 0 else calc_max_budget(bfqd)
    elif name == "timeout_sync":
        write_timeout(bfqd, value)
    elif name == "strict_guarantees":
        if value and not bfqd.strict_guarantees and bfqd.slice_idle_ns < SLICE_IDLE_NS:
            bfqd.slice_idle_ns = SLICE_IDLE_NS
        bfqd.strict_guarantees = value != 0
    elif name == "low_latency":
        if value == 0 and bfqd.low_latency:
            end_all_wr(bfqd)
        bfqd.low_latency = value != 0
    show(bfqd, tunables)


def write_timeout(bfqd: BfqData, msecs: int) -> None:
    """Set the length of a slot, and the budget that the device can serve in it."""
    hz = bfqd.q.machine.hz
    timeout_jif = msecs_to_jiffies(msecs, hz)
    bfqd.timeout_jif = timeout_jif
    bfqd.timeout_ms = jiffies_to_msecs(timeout_jif, hz)
    if bfqd.user_max_budget == 0:
        bfqd.max_budget = calc_max_budget(bfqd)


def show(bfqd: BfqData, tunables: dict[str, Tunable]) -> None:
    """Set the values that a reader of the files sees; several files show the same thing."""
    tunables["fifo_expire_sync"].value = int(bfqd.fifo_expire_sync_ns) // NSEC_PER_MSEC
    tunables["fifo_expire_async"].value = int(bfqd.fifo_expire_async_ns) // NSEC_PER_MSEC
    tunables["back_seek_max"].value = int(bfqd.back_max_sectors) // 2
    tunables["back_seek_penalty"].value = int(bfqd.back_penalty)
    tunables["slice_idle"].value = int(bfqd.slice_idle_ns) // NSEC_PER_MSEC
    tunables["slice_idle_us"].value = int(bfqd.slice_idle_ns) // NSEC_PER_USEC
    tunables["max_budget"].value = int(bfqd.user_max_budget)
    tunables["timeout_sync"].value = int(bfqd.timeout_ms)
    tunables["strict_guarantees"].value = int(bfqd.strict_guarantees)
    tunables["low_latency"].value = int(bfqd.low_latency)
