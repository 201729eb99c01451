"""What a request costs its queue.

Kernel: bfq_serv_to_charge(), block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.pending import asymmetric_scenario

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue
    from blktwin.block.request import Request

ASYNC_CHARGE_FACTOR: Final = 3


def serv_to_charge(bfqd: BfqData, rq: Request, bfqq: BfqQueue) -> i64:
    """Return the sectors to charge: async writes count three times, unless the scenario is asymmetric."""
    if bfqq.is_sync or bfqq.wr_coeff > 1 or asymmetric_scenario(bfqd, bfqq):
        return rq.nr_sectors
    return rq.nr_sectors * ASYNC_CHARGE_FACTOR
