"""The file that a result goes to: checked before the run, written at once after it, never half."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence

from blktwin.errors import BlktwinError, UsageError

NEW_MODE = 0o666
KEY = "--output"


class Target:
    """One --output; sources are the files that the run reads. UsageError when it cannot be written.

    A regular file is replaced in one step by a new one of the same mode, where a symbolic link leads to; a device or
    pipe is written to, and so is a file in a place that takes no new one.
    """

    def __init__(self, path: str, sources: Sequence[str] = ()) -> None:
        self.path = path
        self.mode = -1
        """Of the file that is there; -1: none is."""
        self.owner = (-1, -1)
        self.is_replaced = True
        try:
            self.place = os.path.realpath(path)
            self.look()
            self.refuse_sources(sources)
            self.try_draft()
        except UsageError:
            raise
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: {reason(error)}", key=KEY) from None

    def look(self) -> None:
        """See what is there."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            parent = os.path.dirname(self.place)
            if not os.path.isdir(parent):
                raise UsageError(f"no directory {parent}", key=KEY) from None
            return
        if stat.S_ISDIR(found.st_mode):
            raise UsageError(f"{self.path} is a directory", key=KEY)
        if not os.access(self.path, os.W_OK):
            raise UsageError(f"{self.path} is not to be written to", key=KEY)
        self.mode = stat.S_IMODE(found.st_mode)
        self.owner = (found.st_uid, found.st_gid)
        if not stat.S_ISREG(found.st_mode):
            self.is_replaced = False
            self.place = self.path

    def refuse_sources(self, sources: Sequence[str]) -> None:
        """Stop before what the run has read is lost."""
        for source in sources:
            with contextlib.suppress(OSError):
                if self.mode >= 0 and self.is_replaced and os.path.samefile(self.place, source):
                    raise UsageError(f"{self.path} is read by this run, and would be lost", key=KEY)

    def try_draft(self) -> None:
        """See that a new file can be made there."""
        if not self.is_replaced:
            return
        try:
            os.close(self.make_draft())
        except OSError:
            if self.mode < 0:
                raise
            self.is_replaced = False
            return
        os.unlink(self.draft)

    def make_draft(self) -> int:
        """Make a file of a name that nobody has, in the same directory, and open it."""
        for number in range(1000):
            self.draft = os.path.join(os.path.dirname(self.place), f".blktwin-{os.getpid()}-{number}")
            with contextlib.suppress(FileExistsError):
                return os.open(self.draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, NEW_MODE)
        raise FileExistsError(f"too many drafts in {os.path.dirname(self.place)}")

    def write(self, text: str) -> None:
        """Write the result; whatever fails or interrupts, the old file stays and no draft is left."""
        data = text.encode("utf-8", "surrogateescape")
        try:
            if not self.is_replaced:
                put(os.open(self.place, os.O_WRONLY | os.O_TRUNC), data)
                return
            opened = self.make_draft()
            try:
                put(opened, data)
                if self.mode >= 0:
                    with contextlib.suppress(OSError):
                        os.chown(self.draft, *self.owner)
                    os.chmod(self.draft, self.mode)
                os.replace(self.draft, self.place)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(self.draft)
                raise
        except OSError as error:
            raise BlktwinError(f"{self.path}: {reason(error)}") from None


def put(opened: int, data: bytes) -> None:
    """Write all of data to an open file, and close it."""
    with open(opened, "wb") as file:
        file.write(data)


def reason(error: OSError | ValueError) -> str:
    """Return what an error says, without the path."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
