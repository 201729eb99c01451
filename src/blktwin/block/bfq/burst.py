"""Bursts: many queues created together, as a program's start does; large ones are not raised.

Kernel: bfq_handle_burst(), block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blktwin.block.bfq.pending import group_of

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue

LARGE_BURST_THRESH: Final = 8


def handle_burst(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """See the first request of a queue that was just created."""
    jif = bfqd.jif()
    if bfqq.in_burst_list or bfqq.in_large_burst or bfqq.split_jif + bfqd.jif_10ms >= jif:
        return
    bfqg = group_of(bfqd, bfqq)
    if bfqd.last_ins_in_burst_jif + bfqd.burst_interval_jif < jif or bfqg is not bfqd.burst_parent:
        bfqd.large_burst = False
        reset_burst(bfqd, bfqq)
        bfqd.burst_parent = bfqg
    elif bfqd.large_burst:
        bfqq.in_large_burst = True
    else:
        add_to_burst(bfqd, bfqq)
    bfqd.last_ins_in_burst_jif = jif


def reset_burst(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Begin a new burst, with bfqq if nothing else goes on.

    Kernel: bfq_reset_burst_list(), block/bfq-iosched.c, v6.12.
    """
    clear_burst_list(bfqd)
    bfqd.burst_size = 0
    if bfqd.tot_busy_queues == 0:
        bfqq.in_burst_list = True
        bfqd.burst_list.append(bfqq)
        bfqd.burst_size = 1


def add_to_burst(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Add bfqq to the burst, which may be a large one now.

    Kernel: bfq_add_to_burst(), block/bfq-iosched.c, v6.12.
    """
    bfqd.burst_size += 1
    if bfqd.burst_size < LARGE_BURST_THRESH:
        bfqq.in_burst_list = True
        bfqd.burst_list.insert(0, bfqq)
        return
    bfqd.large_burst = True
    bfqq.in_large_burst = True
    for other in bfqd.burst_list:
        other.in_large_burst = True
    clear_burst_list(bfqd)


def clear_burst_list(bfqd: BfqData) -> None:
    """Forget the queues of the burst."""
    for other in bfqd.burst_list:
        other.in_burst_list = False
    bfqd.burst_list.clear()


def leave_burst(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Forget that bfqq belongs to a burst: it has been idle for long since.

    Kernel: bfq_bfqq_handle_idle_busy_switch(), block/bfq-iosched.c, v6.12.
    """
    if bfqq.in_burst_list:
        bfqq.in_burst_list = False
        bfqd.burst_list.remove(bfqq)
    bfqq.in_large_burst = False
