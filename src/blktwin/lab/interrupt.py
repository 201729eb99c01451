"""Ctrl-C as a question that the run asks between two stretches of events, so that a partial result is consistent."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """A context in which the first Ctrl-C only sets is_set; the second ends the program at once."""

    def __init__(self) -> None:
        self.is_set = False
        self.before: Any = None
        self.is_installed = False

    def __enter__(self) -> Interrupt:
        # Only the main thread may handle signals; elsewhere Ctrl-C stays the caller's.
        if threading.current_thread() is threading.main_thread():
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
