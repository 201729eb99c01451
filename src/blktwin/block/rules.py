"""Which kernel is imitated: one named behaviour per field, each with the commit or release that changed it.

Never compare version numbers: a preset is just a value of Rules.
Differs: until 5.15 a plug held one request at most of a multi-queue, non-rotational device whose driver has no
commit_rqs(); that is not modelled.
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
"""The list's tail; with several queues else the first of the bio's queue, then stop (961296e89dc3, 6.16, 6.12.y)."""
PLUG_MERGE_TAIL_SCAN: Final = 4
"""The list's tail; with several queues else every request of the bio's queue (proposed in 2025, in no release)."""

DEADLINE_NEXT_OF_BATCH: Final = 0
"""mq-deadline remembers the request behind the last one, for the direction of the batch only (until 5.13)."""
DEADLINE_NEXT: Final = 1
"""It remembers that request for each direction and class (d672d325b147, 5.14)."""
DEADLINE_POSITION: Final = 2
"""It remembers the last position and serves what is at or behind it now (83c46ed67557, 6.5)."""

BFQ_GROUPS_ACTIVATED: Final = 0
"""BFQ counts groups that were activated, never the root; the first queue to run dry in an inactive one uncounts it."""
BFQ_GROUPS_SERIES: Final = 1
"""It counts groups, the root too, that own an activated queue, until none of theirs stands in the weights tree
(20220305091205.4188398-1-yukuai3@huawei.com, never merged as such)."""
BFQ_GROUPS_PENDING: Final = 2
"""It counts groups, the root too, that own a queue with requests, queued or in flight (60a6e10c537a, 6.2)."""

BFQ_DEPTH_OF_WORD: Final = 0
"""Depths of writes are fractions of each word of the tag map (until 6.17)."""
BFQ_DEPTH_OF_REQUESTS: Final = 1
"""They are fractions of nr_requests (42e6c6ce03fd, 6.18, 6.12.y)."""
BFQ_DEPTH_OF_ASYNC: Final = 2
"""They follow from queue/async_depth (7.0)."""


class Rules:
    """The behaviours that differ between kernels; the defaults are those of v6.12."""

    plug_max_requests: int = 32
    """A plug with so many requests is flushed by the next: 16 until 5.15, 32 since 5.16 (ba0ffdd8ce48)."""
    plug_max_requests_multi: int = 64
    """The same when the plug holds requests of several queues: 64 since 5.15 (7f2a6a69f7ce)."""
    plug_is_fifo: bool = False
    """The plug list keeps submission order (e70c301faece, 6.13, 6.12.y; also until 5.15). From 5.16 to 6.12 the
    newest stands first, so that a direct issue reverses the order and an insertion restores it."""
    plug_size_of_oldest: bool = False
    """The 128 KiB test looks at the plug's oldest request (e70c301faece, 6.13, 6.12.y); else at the newest."""
    plug_merge: int = PLUG_MERGE_PEEK
    plug_issues_directly: bool = True
    """A plug of one queue without an elevator goes to the driver as it is (dc5fc361d891, 5.16); before, requests
    were sorted when they were of several queues, and went through the software queues when the driver was busy."""
    plug_detaches_per_queue: bool = False
    """The same for each queue of a plug with several (9712c57ec111, 6.16); before, those were inserted."""
    plug_caches_time: bool = True
    """While a plug is up the block layer reuses one clock reading (da4c8c3d0975, 6.9)."""
    unplug_traces_direct: bool = True
    """U is traced for a plug that is issued directly (acc8c0a98875, 6.12)."""
    submit_on_stack_plug: bool = True
    """Each bio submission brings a plug of its own (060406c61c7c, 6.11; gone in 7.2)."""
    bdev_write_plug: bool = False
    """A write() to a block device holds a plug while it waits, so its last requests leave by a schedule
    flush, through kblockd (until 6.5)."""
    delay_run_keeps: bool = True
    """A delayed run that is pending stays as it is; before, every dispatch that got nothing put it off again
    (8f5fea65b06d, 5.18)."""
    deadline_prio_classes: bool = True
    """mq-deadline keeps one set of lists per I/O class, and limits writes to async_depth (5.14)."""
    deadline_prio_aging: bool = True
    """mq-deadline serves a lower class after prio_aging_expire (5.14, back in 5.17)."""
    deadline_next: int = DEADLINE_POSITION
    complete_checks_capacity: bool = True
    """A completion hops when the CPUs' capacities differ, even inside one cache (6.9)."""
    complete_one_ctx_here: bool = True
    """A hardware queue of one CPU completes there without a softirq (f168420c62e7, 6.1)."""
    flush_data_bypasses_elevator: bool = False
    """Requests of the flush machinery never see the elevator (until 6.4; 615939a2ae73, 6.5)."""
    bfq_groups: int = BFQ_GROUPS_PENDING
    bfq_group_threshold: int = 1
    """BFQ idles for service guarantees when more groups than this are counted: 0, since 6.2 1 (eed3ecc991c9)."""
    bfq_one_queue_idles: bool = True
    """BFQ idles for a queue that is alone (5.12)."""
    bfq_preempts_unneeded: bool = True
    """A queue that becomes busy may take over from one that BFQ would not idle for (5.12)."""
    bfq_stable_merge: bool = True
    """BFQ merges queues that are created together (5.13)."""
    bfq_new_wakers: bool = True
    """A waker is believed after three sightings, and its own wakees are served in its slot too (5.12); also since
    then: weights below 80 map to I/O priorities again, and samples are taken of a process's only request."""
    bfq_io_bound_by_time: bool = True
    """I/O-bound is who is without requests for a fifth of the time at most (5.12); else early arrivals count."""
    bfq_raises_default_weight: bool = True
    """Only queues of the default weight are raised (5.12)."""
    bfq_group_depth: bool = True
    """No cgroup may have more scheduler tags than its share (5.17)."""
    bfq_depth: int = BFQ_DEPTH_OF_WORD
    loop_worker_per_cgroup: bool = True
    """A loop device has a worker for each cgroup (87579e9b7d8d, 5.14); before, one."""

    def __init__(self, name: str) -> None:
        self.name: str = name


def rules_until_6_1(name: str) -> Rules:
    """Return what 6.1 and all before it have in common."""
    rules = Rules(name)
    rules.plug_caches_time = False
    rules.unplug_traces_direct = False
    rules.submit_on_stack_plug = False
    rules.bdev_write_plug = True
    rules.complete_checks_capacity = False
    rules.flush_data_bypasses_elevator = True
    rules.bfq_groups = BFQ_GROUPS_ACTIVATED
    rules.bfq_group_threshold = 0
    return rules


def rules_of_fifo_plug(name: str) -> Rules:
    """Return v6.12 with the plug of 6.13: in the order of submission, the oldest request's size counts."""
    rules = Rules(name)
    rules.plug_is_fifo = True
    rules.plug_size_of_oldest = True
    return rules


def rules_5_10() -> Rules:
    """Return the behaviours of v5.10."""
    rules = rules_until_6_1("5.10")
    rules.plug_max_requests = 16
    rules.plug_max_requests_multi = 16
    rules.plug_is_fifo = True
    rules.plug_merge = PLUG_MERGE_SCAN_ALL
    rules.plug_issues_directly = False
    rules.deadline_prio_classes = False
    rules.deadline_prio_aging = False
    rules.deadline_next = DEADLINE_NEXT_OF_BATCH
    rules.complete_one_ctx_here = False
    rules.delay_run_keeps = False
    rules.bfq_one_queue_idles = False
    rules.bfq_preempts_unneeded = False
    rules.bfq_stable_merge = False
    rules.bfq_new_wakers = False
    rules.bfq_io_bound_by_time = False
    rules.bfq_raises_default_weight = False
    rules.bfq_group_depth = False
    rules.loop_worker_per_cgroup = False
    return rules


def rules_5_17() -> Rules:
    """Return the behaviours of v5.17, on which the BFQ series of March 2022 was measured."""
    return rules_of_5_17("5.17")


def rules_5_17_series() -> Rules:
    """Return the behaviours of v5.17 with the eleven patches of March 2022."""
    rules = rules_of_5_17("5.17-series")
    rules.bfq_groups = BFQ_GROUPS_SERIES
    rules.bfq_group_threshold = 1
    return rules


def rules_of_5_17(name: str) -> Rules:
    """Return the behaviours of v5.17 under a name."""
    rules = rules_until_6_1(name)
    rules.plug_merge = PLUG_MERGE_LAST_ONLY
    rules.deadline_next = DEADLINE_NEXT
    rules.complete_one_ctx_here = False
    rules.delay_run_keeps = False
    return rules


def rules_6_1() -> Rules:
    """Return the behaviours of v6.1."""
    rules = rules_until_6_1("6.1")
    rules.deadline_next = DEADLINE_NEXT
    return rules


def rules_6_12() -> Rules:
    """Return the behaviours of v6.12."""
    return Rules("6.12")


def rules_6_12_y() -> Rules:
    """Return the behaviours of the stable releases of 6.12 since 2025, which took over the plug of 6.13 and 6.16."""
    rules = rules_of_fifo_plug("6.12.y")
    rules.bfq_depth = BFQ_DEPTH_OF_REQUESTS
    rules.plug_merge = PLUG_MERGE_TAIL
    return rules


def rules_6_13() -> Rules:
    """Return the behaviours of v6.13: a FIFO plug whose oldest request is tried for merges (e70c301faece)."""
    rules = rules_of_fifo_plug("6.13")
    return rules


def rules_6_18() -> Rules:
    """Return the behaviours of v6.18."""
    rules = rules_of_fifo_plug("6.18")
    rules.bfq_depth = BFQ_DEPTH_OF_REQUESTS
    rules.plug_merge = PLUG_MERGE_TAIL
    rules.plug_detaches_per_queue = True
    return rules


def rules_7_2() -> Rules:
    """Return the behaviours of v7.2."""
    rules = rules_of_fifo_plug("7.2")
    rules.plug_merge = PLUG_MERGE_TAIL
    rules.plug_detaches_per_queue = True
    rules.submit_on_stack_plug = False
    rules.bfq_depth = BFQ_DEPTH_OF_ASYNC
    return rules


PRESETS: Final = {
    "5.10": rules_5_10,
    "5.17": rules_5_17,
    "5.17-series": rules_5_17_series,
    "6.1": rules_6_1,
    "6.12": rules_6_12,
    "6.12.y": rules_6_12_y,
    "6.13": rules_6_13,
    "6.18": rules_6_18,
    "7.2": rules_7_2,
}
PRESET_NAMES: Final = tuple(PRESETS)
DEFAULT_RULES: Final = "6.12"


def preset(name: str) -> Rules | None:
    """Return the preset called name, or None; PRESET_NAMES lists them."""
    make = PRESETS.get(name)
    return None if make is None else make()
