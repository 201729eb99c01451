"""The system calls that cost a submitter time; the machine's cost table is indexed by these codes."""

from __future__ import annotations

from typing import Final

SYS_PREAD: Final = 0
SYS_PWRITE: Final = 1
SYS_IO_SUBMIT: Final = 2
SYS_IO_GETEVENTS: Final = 3
SYS_IO_URING_ENTER: Final = 4
SYS_FSYNC: Final = 5
SYS_NAMES: Final = ("pread", "pwrite", "io_submit", "io_getevents", "io_uring_enter", "fsync")
