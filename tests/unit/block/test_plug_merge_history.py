"""How the plug's merge strategies came and went, shown by the two public reports that changed them.

One: fsync of random 4 KiB pages on a device whose buffers are 2 KiB, so that each page is two bios in a row. A FIFO
list whose head is tried merges almost none of them (the report: 362 MiB/s and 2 KiB on average, against 660 and 4).
Two: sequential writes interleaved over many disks in one plug (a RAID6 check: 19 against 103 MB/s). Trying the newest
request only, of whatever queue, finds nothing.
"""

from __future__ import annotations

import pytest
from block_world import World

from blktwin.block.bio import REQ_OP_READ, REQ_OP_WRITE, REQ_SYNC
from blktwin.block.rules import PLUG_MERGE_TAIL, PLUG_MERGE_TAIL_SCAN, PRESET_NAMES, Rules
from blktwin.rng import Rng

PAGES = 64
DISKS = 20


def average_bytes_of_split_pages(rules: Rules | str) -> int:
    """Write 64 random pages as two bios each in one plug; return the average request in bytes."""
    world = World(rules, depth=128)
    task = world.task()
    rng = Rng(1, 1)
    pages = sorted({int(rng.below(1 << 20)) * 2 for _ in range(PAGES)})
    world.plug(task)
    for page in pages:
        for half in (0, 4):
            world.submit(task, page * 8 + half, 4, REQ_OP_WRITE, REQ_SYNC)
    world.unplug(task)
    total = sum(int(rq.nr_sectors) for rq in world.device.held)
    assert total == len(pages) * 8
    return total * 512 // len(world.device.held)


@pytest.mark.parametrize(
    ("rules", "nbytes"),
    [("5.10", 4096), ("5.17", 4096), ("6.1", 4096), ("6.12", 4096), ("6.12.y", 4096), ("6.18", 4096), ("7.2", 4096)],
)
def test_neighbours_merge_at_the_newest_request(rules: str, nbytes: int) -> None:
    """LIFO lists and tail checks find the other half of the page."""
    assert average_bytes_of_split_pages(rules) == nbytes


def test_a_fifo_list_tried_at_its_head_merges_almost_nothing() -> None:
    """6.13: only the first page of each plugful merges, so the average stays at half a page."""
    assert 2048 <= average_bytes_of_split_pages("6.13") < 2200


def requests_of_interleaved_disks(rules: Rules | str) -> int:
    """Read 8 sequential chunks of each of 20 disks, round robin, in one plug; return how many requests come out."""
    world = World(rules)
    queues = [world.q] + [world.add_queue() for _ in range(DISKS - 1)]
    task = world.task()
    world.plug(task)
    for chunk in range(8):
        for q in queues:
            world.submit(task, chunk * 8, 8, REQ_OP_READ, 0, q)
    world.unplug(task)
    assert sum(int(rq.nr_sectors) for rq in world.device.held) == DISKS * 64
    return len(world.device.held)


@pytest.mark.parametrize("rules", ["5.10", "6.1", "6.12", "6.12.y", "6.13", "6.18", "7.2"])
def test_interleaved_disks_merge(rules: str) -> None:
    """A search for the disk's own request restores large requests: one per disk, but for the 16 of 5.10's plug."""
    count = requests_of_interleaved_disks(rules)
    assert count == (DISKS if rules != "5.10" else 160)


def test_interleaved_disks_do_not_merge_at_the_newest_request() -> None:
    """5.16 and 5.17: none of 160."""
    assert requests_of_interleaved_disks("5.17") == 160


def test_scanning_on_finds_more_than_the_first_request() -> None:
    """Two streams per disk: the stop after the disk's first request loses the second stream."""

    def count(plug_merge: int) -> int:
        rules = Rules("test")
        rules.plug_is_fifo = True
        rules.plug_merge = plug_merge
        world = World(rules)
        disks = [world.q, world.add_queue(), world.add_queue()]
        task = world.task()
        world.plug(task)
        for chunk in range(4):
            for disk, q in enumerate(disks):
                # The third disk has one stream: its request stands at the tail.
                for base in (0, 10_000) if disk < 2 else (0,):
                    world.submit(task, base + chunk * 8, 8, REQ_OP_READ, 0, q)
        world.unplug(task)
        return len(world.device.held)

    assert count(PLUG_MERGE_TAIL_SCAN) == 5
    assert count(PLUG_MERGE_TAIL) == 3 + 2 * 4


def test_every_preset_is_covered() -> None:
    """A new preset must say where it stands in this history."""
    assert set(PRESET_NAMES) == {"5.10", "5.17", "5.17-series", "6.1", "6.12", "6.12.y", "6.13", "6.18", "7.2"}
