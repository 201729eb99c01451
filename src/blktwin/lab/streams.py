"""Standard input, output and error as they may be: closed, full, or a pipe that nobody reads any more."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from blktwin.errors import BlktwinError

STDOUT = 1
STDERR = 2


def repair() -> None:
    """Give a closed standard output or error something to be: an output that fails as such, an error that is lost."""
    if sys.stdout is None:
        sys.stdout = open(take(STDOUT, os.O_RDONLY), "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(take(STDERR, os.O_WRONLY), "w", encoding="utf-8", closefd=False)


def take(number: int, mode: int) -> int:
    """Make /dev/null the file descriptor of that number, open for that mode."""
    opened = os.open(os.devnull, mode)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return number


def say(text: str) -> None:
    """Print a line on standard error, for who listens."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        take(STDERR, os.O_WRONLY)


def emit(text: str) -> None:
    """Print text on standard output as UTF-8; names that are none keep their bytes."""
    with printing():
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


@contextmanager
def printing() -> Iterator[None]:
    """Have everything printed at the end; BlktwinError when it cannot be, BrokenPipeError when nobody reads it."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        take(STDOUT, os.O_WRONLY)
        raise
    except OSError as error:
        # What is left in Python's buffer would fail again at exit.
        take(STDOUT, os.O_WRONLY)
        raise BlktwinError(f"standard output: {error.strerror}") from None
