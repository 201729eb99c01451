"""A kernel worker that does the syncs of an io_uring: they may block, so the ring never does them itself."""

from __future__ import annotations

from typing import Final

from blktwin.block.bdev import FsyncCall
from blktwin.block.bio import BLK_STS_OK
from blktwin.block.machine import Task
from blktwin.fio.job import IoThread
from blktwin.fio.unit import IoUnit

HELPER_PIDS: Final = 100_000
"""A thread's first helper has its pid plus so much."""


class SyncHelper(Task):
    """A kernel worker that does one fsync at a time for a thread's ring."""

    def __init__(self, owner: IoThread, pid: int) -> None:
        super().__init__(pid, "iou-wrk", owner.cgroup)
        self.owner: IoThread = owner
        self.ioprio = owner.ioprio
        self.io_context = owner.io_context
        self.cpu = owner.cpu
        self.unit: IoUnit | None = None
        self.call: FsyncCall | None = None

    def serve(self, unit: IoUnit) -> None:
        """Begin a unit's sync, soon."""
        self.unit = unit
        handle = unit.file.handle
        assert handle is not None
        call = self.call
        if call is None or call.file is not handle:
            self.call = FsyncCall(handle, self)
        self.owner.machine.wake_task(self)

    def run(self) -> None:
        """Go on with the sync."""
        unit = self.unit
        call = self.call
        if unit is None or call is None or not call.advance():
            return
        self.unit = None
        if call.status != BLK_STS_OK:
            self.owner.fail_sync(call.status)
        self.owner.helper_done(unit)
