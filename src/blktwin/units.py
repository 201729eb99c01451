"""Sizes and times that everything shares: one sector is 512 bytes, one second a thousand million ns."""

from __future__ import annotations

from typing import Final

SECTOR_SHIFT: Final = 9
SECTOR_BYTES: Final = 512
PAGE_BYTES: Final = 4096
KIB: Final = 1024
MIB: Final = 1024 * 1024
GIB: Final = 1024 * 1024 * 1024
NSEC_PER_USEC: Final = 1_000
NSEC_PER_MSEC: Final = 1_000_000
NSEC_PER_SEC: Final = 1_000_000_000
