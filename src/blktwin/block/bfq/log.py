"""What BFQ decides, as it decides: hooks for a decision log; without one nothing is called.

The classes are passed as they are at that moment; a log that keeps them must copy what it wants to remember.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue

TOO_IDLE: Final = 0
BUDGET_TIMEOUT: Final = 1
BUDGET_EXHAUSTED: Final = 2
NO_MORE_REQUESTS: Final = 3
PREEMPTED: Final = 4
REASON_NAMES: Final = ("TOO_IDLE", "BUDGET_TIMEOUT", "BUDGET_EXHAUSTED", "NO_MORE_REQUESTS", "PREEMPTED")
"""Why a slot ended, with the kernel's names (enum bfqq_expiration)."""

IDLE_NOT: Final = 0
IDLE_STRICT: Final = 1
IDLE_BOOSTS: Final = 2
IDLE_RAISED: Final = 3
IDLE_WEIGHTS: Final = 4
IDLE_CLASSES: Final = 5
IDLE_GROUPS: Final = 6
IDLE_ONLY: Final = 7
NOT_OFF: Final = 8
NOT_ASYNC: Final = 9
NOT_GONE: Final = 10
"""Which rule makes BFQ idle for a queue, or not (idle.py)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BfqLog:
    """Every hook does nothing here."""

    def in_service(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A slot begins."""

    def expired(self, bfqd: BfqData, bfqq: BfqQueue, reason: i64, is_slow: bool, charged: i64) -> None:
        """A slot ends; charged: sectors added for its time."""

    def exited(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A slot ends because the process has ended: it is charged nothing."""

    def held(self, bfqd: BfqData, bfqq: BfqQueue, rule: i64) -> None:
        """The device is kept for bfqq, which has nothing to give: a dispatch gets nothing."""

    def idling(self, bfqd: BfqData, bfqq: BfqQueue, rule: i64, ns: i64) -> None:
        """The idle timer starts."""

    def not_idling(self, bfqd: BfqData, bfqq: BfqQueue, rule: i64) -> None:
        """The last request of bfqq has completed, or a dispatch finds it empty, and BFQ does not wait for it."""

    def injected(self, bfqd: BfqData, in_service: BfqQueue, bfqq: BfqQueue, why: i64) -> None:
        """A request of bfqq is served in the slot of another queue (inject.py has the reasons)."""

    def inject_limit(self, bfqd: BfqData, bfqq: BfqQueue, before: i64) -> None:
        """The injection limit of bfqq has changed from `before`."""

    def dispatched(self, bfqd: BfqData, bfqq: BfqQueue, sectors: i64) -> None:
        """A request of bfqq goes to the driver; sectors: what it is charged."""

    def completed(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A request of bfqq has completed."""

    def inserted(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A request of bfqq has been inserted."""

    def raised(self, bfqd: BfqData, bfqq: BfqQueue, before: i64) -> None:
        """The weight-raising coefficient of bfqq has changed from `before`."""

    def groups(self, bfqd: BfqData, path: str) -> None:
        """num_groups_with_pending_reqs has changed because of the group at path."""

    def merged(self, bfqd: BfqData, bfqq: BfqQueue, into: BfqQueue, why: str) -> None:
        """bfqq is merged into another queue."""

    def split(self, bfqd: BfqData, bfqq: BfqQueue) -> None:
        """A process leaves the shared queue bfqq."""

    def moved(self, bfqd: BfqData, bfqq: BfqQueue, path: str) -> None:
        """bfqq moves to the group at path."""

    def woken_by(self, bfqd: BfqData, bfqq: BfqQueue, waker: BfqQueue) -> None:
        """waker is taken for the queue that bfqq waits for."""
