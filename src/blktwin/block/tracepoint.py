"""The block tracepoints, named and placed as the kernel's; the base class ignores them all.

A machine installs a subclass that charges CPU costs, records rows, or both. blktrace's letter stands first in each
docstring.
Kernel: include/trace/events/block.h, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from blktwin.block.bio import Bio
    from blktwin.block.machine import Task
    from blktwin.block.request import Request


@mypyc_attr(allow_interpreted_subclasses=True)
class Tracepoints:
    """Every hook does nothing here."""

    def user_io(self, task: Task) -> None:
        """Mark the user-space work of one I/O (fio's own: choose an offset, book a latency)."""

    def sys_enter(self, task: Task, call: int) -> None:
        """Mark a task entering the kernel; call is one of the SYS_ codes of syscalls.py."""

    def sys_exit(self, task: Task, call: int, nr: int) -> None:
        """Mark a task leaving the kernel; nr counts the I/Os that the call submitted or reaped."""

    def io_prep(self, task: Task) -> None:
        """Mark the file and direct-I/O layer's work for one I/O, above the bio."""

    def aio_prep(self, task: Task) -> None:
        """Mark what an asynchronous submission call does for one I/O before that: its control block."""

    def page_copy(self, task: Task, nr_pages: i64) -> None:
        """Mark the copy of a buffered write into the page cache."""

    def bio_queue(self, bio: Bio) -> None:
        """Q: a bio enters the queue."""

    def split(self, bio: Bio, sector: i64) -> None:
        """X: a bio is split; the remainder starts at sector."""

    def getrq(self, bio: Bio) -> None:
        """G: the bio got a request."""

    def bio_backmerge(self, bio: Bio, rq: Request) -> None:
        """M: the bio was added behind a waiting request."""

    def bio_frontmerge(self, bio: Bio, rq: Request) -> None:
        """F: the bio was added in front of a waiting request."""

    def rq_merge(self, rq: Request) -> None:
        """Note (m) that rq was merged into its neighbour."""

    def plug(self, task: Task) -> None:
        """P: the first request enters a plug."""

    def unplug(self, task: Task, depth: i64, explicit: bool) -> None:
        """U: a plug is flushed; explicit is False when the task was about to sleep."""

    def rq_insert(self, rq: Request) -> None:
        """I: the request enters the elevator or a software queue."""

    def rq_issue(self, rq: Request) -> None:
        """D: the driver starts the request."""

    def rq_requeue(self, rq: Request) -> None:
        """R: the request goes back to the queue."""

    def rq_complete(self, rq: Request, status: i64, nr_bytes: i64) -> None:
        """C: nr_bytes of the request ended with status."""

    def tag_wait(self, task: Task) -> None:
        """Mark a submitter that sleeps because no tag is free (block_rq_tag_wait, v7.3)."""

    # -- file operations of the kernel (drivers/backing.py), and the loop driver above them

    def file_op(self, task: Task, op: i64, nbytes: i64) -> None:
        """Mark the work of the file system and direct-I/O layer for one operation that task executes."""

    def file_done(self, task: Task, op: i64) -> None:
        """Mark the file system's end of an asynchronous operation, in the context of task."""

    def file_copy(self, task: Task, nr_pages: i64) -> None:
        """Mark the copy of pages between a page cache and the caller's memory."""

    def loop_dispatch(self, rq: Request) -> None:
        """Mark the loop driver's own work of one request, when it arrives."""

    def loop_work(self, rq: Request, reason: i64) -> None:
        """W: the request was given to a worker; reason is one of drivers/loop/reasons.py."""

    def loop_begin(self, rq: Request, task: Task, reason: i64) -> None:
        """X: task begins to execute the request; reason as in loop_work(), or REASON_INLINE."""

    def loop_lower_queue(self, rq: Request) -> None:
        """Q': the request's first bio goes to the device below."""

    def loop_lower_done(self, rq: Request) -> None:
        """C': the request's last bio below has ended."""

    def loop_end(self, rq: Request, result: i64) -> None:
        """Mark the end of the request's file operation: bytes, or an error number below 0."""

    def work_begin(self, task: Task, name: str, waited_ns: i64) -> None:
        """Mark a worker that takes a work item of the workqueue `name`, waited_ns after that was queued."""

    def work_end(self, task: Task) -> None:
        """Mark the end of that work item's run."""

    def task_ran(self, task: Task, from_ns: i64, until_ns: i64) -> None:
        """Mark a stretch of task on its CPU, when that has ended; only a machine that watches_tasks tells it."""
