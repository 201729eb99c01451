"""Which kernel is imitated: one named behaviour per field, each with the commit or release that changed it.

Never compare version numbers: a preset is just a value of Rules.
"""

from __future__ import annotations

from typing import Final

PLUG_MERGE_SCAN_ALL: Final = 0
"""Every plugged request of the bio's queue, newest first (until 5.15)."""
PLUG_MERGE_LAST_ONLY: Final = 1
"""The newest request only, whatever its queue (d38a9c04c0d5, 5.16)."""
PLUG_MERGE_PEEK: Final = 2
"""The list's head; with several queues the first of the bio's queue, then stop (5b2050718d09, 5.18)."""
PLUG_MERGE_TAIL: Final = 3
"""The list's tail; with several queues else the first of the bio's queue, then stop (961296e89dc3, 6.16)."""
PLUG_MERGE_TAIL_SCAN: Final = 4
"""The list's tail; with several queues else every request of the bio's queue."""


class Rules:
    """The behaviours that differ between kernels; the defaults are those of v6.12."""

    def __init__(
        self,
        name: str,
        *,
        plug_max_requests: int = 32,
        plug_is_fifo: bool = False,
        plug_merge: int = PLUG_MERGE_PEEK,
        plug_detaches_per_queue: bool = False,
        plug_caches_time: bool = True,
        submit_on_stack_plug: bool = True,
        bdev_write_plug: bool = False,
        deadline_prio_classes: bool = True,
        deadline_prio_aging: bool = True,
        complete_checks_capacity: bool = True,
        flush_data_bypasses_elevator: bool = False,
    ) -> None:
        self.name: str = name
        self.plug_max_requests: int = plug_max_requests
        """16 until 5.15, 32 since 5.16."""
        self.plug_is_fifo: bool = plug_is_fifo
        """The plug list keeps submission order and the 128 KiB test looks at its oldest request (6.13, 6.12.y);
        before, the newest stood first. Until 5.15 it was a FIFO whose size test looked at the newest."""
        self.plug_merge: int = plug_merge
        self.plug_detaches_per_queue: bool = plug_detaches_per_queue
        """A flush with several queues issues each queue's requests directly (7.x); before, it inserted them."""
        self.plug_caches_time: bool = plug_caches_time
        """While a plug is up the block layer reuses one clock reading (da4c8c3d0975, 6.9)."""
        self.submit_on_stack_plug: bool = submit_on_stack_plug
        """Each bio submission brings a plug of its own (6.9 to 6.18, gone in 7.2)."""
        self.bdev_write_plug: bool = bdev_write_plug
        """A write() to a block device holds a plug while it waits, so its last requests leave by a schedule
        flush, through kblockd (until 6.5)."""
        self.deadline_prio_classes: bool = deadline_prio_classes
        """mq-deadline keeps one set of lists per I/O class (5.14)."""
        self.deadline_prio_aging: bool = deadline_prio_aging
        """mq-deadline serves a lower class after prio_aging_expire (5.14, back in 5.17)."""
        self.complete_checks_capacity: bool = complete_checks_capacity
        """A completion hops when the CPUs' capacities differ, even inside one cache (6.12)."""
        self.flush_data_bypasses_elevator: bool = flush_data_bypasses_elevator
        """The data part of a FUA write goes straight to the dispatch list (until 6.4)."""


def rules_5_10() -> Rules:
    """Return the behaviours of v5.10."""
    return Rules(
        "5.10",
        plug_max_requests=16,
        plug_is_fifo=True,
        plug_merge=PLUG_MERGE_SCAN_ALL,
        plug_caches_time=False,
        submit_on_stack_plug=False,
        bdev_write_plug=True,
        deadline_prio_classes=False,
        deadline_prio_aging=False,
        complete_checks_capacity=False,
        flush_data_bypasses_elevator=True,
    )


def rules_5_17() -> Rules:
    """Return the behaviours of v5.17, on which the BFQ series of March 2022 was measured."""
    return Rules(
        "5.17",
        plug_merge=PLUG_MERGE_LAST_ONLY,
        plug_caches_time=False,
        submit_on_stack_plug=False,
        bdev_write_plug=True,
        complete_checks_capacity=False,
        flush_data_bypasses_elevator=True,
    )


def rules_6_1() -> Rules:
    """Return the behaviours of v6.1."""
    return Rules(
        "6.1",
        plug_caches_time=False,
        submit_on_stack_plug=False,
        bdev_write_plug=True,
        complete_checks_capacity=False,
        flush_data_bypasses_elevator=True,
    )


def rules_6_12() -> Rules:
    """Return the behaviours of v6.12."""
    return Rules("6.12")


def rules_6_18() -> Rules:
    """Return the behaviours of v6.18."""
    return Rules("6.18", plug_is_fifo=True, plug_merge=PLUG_MERGE_TAIL)


def rules_7_2() -> Rules:
    """Return the behaviours of v7.2."""
    return Rules(
        "7.2",
        plug_is_fifo=True,
        plug_merge=PLUG_MERGE_TAIL,
        plug_detaches_per_queue=True,
        submit_on_stack_plug=False,
    )


def preset(name: str) -> Rules | None:
    """Return the preset called name, or None; PRESET_NAMES lists them."""
    if name == "5.10":
        return rules_5_10()
    if name == "5.17":
        return rules_5_17()
    if name == "6.1":
        return rules_6_1()
    if name == "6.12":
        return rules_6_12()
    if name == "6.18":
        return rules_6_18()
    if name == "7.2":
        return rules_7_2()
    return None


PRESET_NAMES: Final = ("5.10", "5.17", "6.1", "6.12", "6.18", "7.2")
DEFAULT_RULES: Final = "6.12"
