"""Errors by who is at fault, and how each becomes one line; a failed I/O is a status on the bio, never one of these."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_INTERRUPTED = 130
"""How a command ends that Ctrl-C has stopped."""
FILE_MAX = 300
KEY_MAX = 100
MESSAGE_MAX = 600
"""Characters of each part of an error that are shown."""


def shown(text: str, limit: int = 80) -> str:
    """Make text of unknown origin fit for one line: cut in its middle, and nothing that a terminal would act on."""
    if len(text) > limit:
        head = limit * 2 // 3
        text = text[:head] + "..." + text[len(text) - (limit - head) :]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def near(word: str, names: Iterable[str]) -> str:
    """Return "; did you mean X?" for the name closest to word, "" when none is close."""
    # No name is longer, and difflib is slow on what is.
    found = difflib.get_close_matches(word, list(names), 1, 0.6) if len(word) <= 256 else []
    return f"; did you mean {found[0]}?" if found else ""


class BlktwinError(Exception):
    """Any error that reaches the user as one line; exit_code is the process's exit status."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(shown(message, FILE_MAX + MESSAGE_MAX))


class ConfigError(BlktwinError, ValueError):
    """A job, profile or command line is wrong: names the file, line and key, and the near match.

    The parts stay as given; the text of the error has them escaped and cut.
    """

    def __init__(self, message: str, *, file: str = "", line: int = 0, key: str = "") -> None:
        self.message = message
        self.file = file
        self.line = line
        self.key = key
        name = shown(file, FILE_MAX)
        where = f"{name}:{line}: " if file and line else f"{name}: " if file else ""
        key_text = shown(key, KEY_MAX) + ": " if key else ""
        # Not super(): what is put together here is never cut again.
        Exception.__init__(self, where + key_text + shown(message, MESSAGE_MAX))


class UsageError(ConfigError):
    """The command line itself is wrong."""

    exit_code = 2


class LoopViolation(BlktwinError):
    """A loop driver's policy did what no driver may do: names the rule, the device and the request."""


class Unavailable(BlktwinError):
    """That machine or tool is not available here (the reason is the message)."""

    exit_code = 77
