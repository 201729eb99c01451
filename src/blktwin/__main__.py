"""The `blktwin` command, also as `python -m blktwin`: Ctrl-C ends it in one line, from the first import on."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

EXIT_INTERRUPTED = 130
"""As errors.py has it; nothing is imported before Ctrl-C is taken care of."""


def stop_at_once(number: int, frame: object) -> None:
    """Handle Ctrl-C where nothing is worth keeping: no exception passes through half-imported modules."""
    with contextlib.suppress(OSError):
        os.write(2, b"blktwin: interrupted\n")
    os._exit(EXIT_INTERRUPTED)


def main() -> int:
    """Run the command line of this process."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop_at_once)
    from blktwin.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
