"""Errors by who is at fault; an I/O failure is a status on the bio, never one of these."""

from __future__ import annotations


class BlktwinError(Exception):
    """Any error that reaches the user as one line; exit_code is the process's exit status."""

    exit_code = 1


class ConfigError(BlktwinError, ValueError):
    """A job, profile or command line is wrong: names the file, line and key, and the near match."""

    def __init__(self, message: str, *, file: str = "", line: int = 0, key: str = "") -> None:
        self.message = message
        self.file = file
        self.line = line
        self.key = key
        where = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(where + (f"{key}: " if key else "") + message)


class UsageError(ConfigError):
    """The command line itself is wrong."""

    exit_code = 2


class Unavailable(BlktwinError):
    """That machine or tool is not available here (the reason is the message)."""

    exit_code = 77
