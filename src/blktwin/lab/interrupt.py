"""Ctrl-C as a question that a run asks between two stretches of work, so that a partial result is consistent."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """A context in which the first Ctrl-C only sets is_set; the second raises KeyboardInterrupt at once."""

    def __init__(self) -> None:
        self.is_set = False
        self.before: Any = None
        self.is_installed = False

    def __enter__(self) -> Interrupt:
        # Only the main thread may handle signals; elsewhere, and where it is ignored, Ctrl-C stays the caller's.
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self.before = signal.signal(signal.SIGINT, self.note)
            self.is_installed = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_installed:
            signal.signal(signal.SIGINT, self.before)

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True

    def check(self) -> None:
        """Stop what has no partial result, such as building a world, once Ctrl-C has come."""
        if self.is_set:
            raise KeyboardInterrupt
