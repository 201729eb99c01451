"""The page cache of one file."""

from __future__ import annotations

from mypy_extensions import i64


class PageCache:
    """Pages by index."""

    def __init__(self) -> None:
        self.nr_pages: i64 = 0
