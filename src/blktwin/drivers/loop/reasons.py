"""Why a request is executed where it is: codes for the tracepoints loop_work() and loop_begin(), and their names."""

from __future__ import annotations

from typing import Final

REASON_INLINE: Final = 0
"""Whoever issued it executed it."""
REASON_POLICY: Final = 1
"""The policy gives everything to workers."""
REASON_NOT_AIO: Final = 2
"""Buffered, or no read or write: it may sleep."""
REASON_NO_FMODE: Final = 3
"""The file cannot do without sleeping."""
REASON_HINT_SKIP: Final = 4
"""A write, while others wait for a worker: it would most likely fail too."""
REASON_EAGAIN_SYNC: Final = 5
"""Tried, and the file would have slept."""
REASON_EAGAIN_ASYNC: Final = 6
"""Tried, and the device below had no room for it."""
REASON_CTX_FORBIDDEN: Final = 7
"""Who issued it may not run file system code: an interrupt, or one that does so already."""
REASON_ROOT_FALLBACK: Final = 8
"""No memory for its cgroup's worker: the root worker takes it, uncharged."""
REASON_WRITE: Final = 9
"""Not a read; the policy runs nothing else inline."""
REASON_NO_PLUG: Final = 10
"""The policy looks for a plug, and there is none."""
REASON_SHORT: Final = 11
"""The rest of a short write."""
REASON_BLOCKED: Final = 12
"""A worker's own attempt said EAGAIN (only with eagain_requeues_forever)."""

REASON_NAMES: Final = (
    "inline_ok",
    "policy",
    "not_aio",
    "no_fmode",
    "hint_skip",
    "eagain_sync",
    "eagain_async",
    "ctx_forbidden",
    "root_fallback",
    "write",
    "no_plug",
    "short",
    "blocked",
)
NR_REASONS: Final = 13
