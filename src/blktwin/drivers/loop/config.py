"""What is said about a loop device: losetup's options, the policy, and the kernel's bugs as switches.

Kernel: struct loop_config, include/uapi/linux/loop.h, v6.12, has the part that losetup sets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from blktwin.errors import ConfigError, near

POLICY_WORKQUEUE: Final = 0
POLICY_PER_COMMAND: Final = 1
POLICY_SYNC_READ: Final = 2
POLICY_NOWAIT_FIRST: Final = 3
POLICY_RFC_SAFE: Final = 4
POLICY_RFC_EXACT: Final = 5
POLICIES: Final = ("workqueue", "per_command", "sync_read", "nowait_first", "rfc_safe", "rfc_exact")
"""By code: one worker for each cgroup; one work item for each request; reads from the issuer's context without
sleeping; reads and writes so; the RFC of 2025 without and with its defects."""

NOWAIT_VARIANTS: Final = ("v4", "v5", "fixed")
"""v4 tries files that cannot do without sleeping too; v5 does not; fixed is v5. Their bugs are switches."""

LOOP_DEPTH: Final = 128
LOOP_MAX_DEPTH: Final = 10240


class KernelCompat:
    """Bugs of kernels and of posted patches, all off: each line says what goes wrong when one is on."""

    def __init__(self) -> None:
        self.short_write_ok: bool = False
        """A write that the file took only a part of is acknowledged whole: the rest is lost without a word."""
        self.eof_read_zero_success: bool = False
        """A buffered read that meets the end of the file succeeds, all zeros, what was read before it included."""
        self.hint_use_after_completion: bool = False
        """The hint's counter goes by a command that may serve another request by now: it leaks or wraps."""
        self.hint_asserts_wrong_lock: bool = False
        """Counting a write for the hint asserts a lock that nobody holds (V4)."""
        self.eopnotsupp_is_error: bool = False
        """A file that says EOPNOTSUPP to an attempt without sleeping fails the user's I/O (V4)."""
        self.eopnotsupp_completes_twice: bool = False
        """The same ends the request and gives it to a worker, which ends it again (V5)."""
        self.eagain_requeues_forever: bool = False
        """EAGAIN from a worker's attempt gives the request to a worker again, without end (V4, V5)."""
        self.prep_failure_completes: bool = False
        """A command without memory goes to the completion helper, whose count is not set: it never ends (V4, V5)."""
        self.freeze_taken_twice: bool = False
        """A write that falls back takes the file system's freeze protection again and gives it back once (V4, V5)."""
        self.lower_bios_last: bool = False
        """Bios for the device below wait behind the task's next upper bio, which may wait for their end (V4, V5)."""
        self.plug_shared: bool = False
        """Inline I/O adds to the plug that is being flushed: those requests are left behind (V4, V5)."""
        self.inline_nests: bool = False
        """Inline I/O also inside another file system's code: stacks nest as deep as the devices (V4, V5)."""
        self.rfc_unstarted_ok: bool = False
        """rfc_exact goes on although requests end that nobody started; no tracepoint shows their issue."""

    def enable(self, names: Iterable[str]) -> None:
        """Turn on the switches of these names, "v4" and "v5" for all of a series; ConfigError for any other name."""
        for name in names:
            if name == "v4":
                self.enable(BUGS_OF_V4)
            elif name == "v5":
                self.enable(BUGS_OF_V5)
            elif name in COMPAT_NAMES:
                setattr(self, name, True)
            else:
                raise ConfigError(f"no such kernel bug: {name}{near(name, COMPAT_NAMES)}", key="kernel-compat")

    def enabled(self) -> list[str]:
        """Return the names of the switches that are on."""
        return [name for name in COMPAT_NAMES if getattr(self, name)]


COMPAT_NAMES: Final = (
    "short_write_ok",
    "eof_read_zero_success",
    "hint_use_after_completion",
    "hint_asserts_wrong_lock",
    "eopnotsupp_is_error",
    "eopnotsupp_completes_twice",
    "eagain_requeues_forever",
    "prep_failure_completes",
    "freeze_taken_twice",
    "lower_bios_last",
    "plug_shared",
    "inline_nests",
    "rfc_unstarted_ok",
)
BUGS_OF_V4: Final = (
    "hint_use_after_completion",
    "hint_asserts_wrong_lock",
    "eopnotsupp_is_error",
    "eagain_requeues_forever",
    "prep_failure_completes",
    "freeze_taken_twice",
    "lower_bios_last",
    "plug_shared",
    "inline_nests",
)
BUGS_OF_V5: Final = (
    "hint_use_after_completion",
    "eopnotsupp_completes_twice",
    "eagain_requeues_forever",
    "prep_failure_completes",
    "freeze_taken_twice",
    "lower_bios_last",
    "plug_shared",
    "inline_nests",
)


class LoopConfig:
    """One device's options; the defaults are losetup's and the kernel's."""

    def __init__(self) -> None:
        self.policy: str = "workqueue"
        self.direct_io: bool = False
        self.offset_bytes: int = 0
        self.sizelimit_bytes: int = 0
        """0: none."""
        self.block_bytes: int = 0
        """Logical block size; 0: the kernel's choice."""
        self.read_only: bool = False
        self.autoclear: bool = False
        self.partscan: bool = False
        self.nr_hw_queues: int = 1
        self.queue_depth: int = LOOP_DEPTH
        self.hint: bool = True
        """nowait_first: no attempt for writes while others wait for a worker."""
        self.nowait_variant: str = "fixed"
        self.batch_plug: bool = False
        """Inline I/O of one batch shares a plug for the device below."""
        self.compat: KernelCompat = KernelCompat()

    def check(self) -> None:
        """Raise ConfigError for a value that no device can have."""
        if self.policy not in POLICIES:
            raise ConfigError(
                f"{self.policy} is none of {', '.join(POLICIES)}{near(self.policy, POLICIES)}", key="policy"
            )
        if self.nowait_variant not in NOWAIT_VARIANTS:
            raise ConfigError(f"{self.nowait_variant} is none of {', '.join(NOWAIT_VARIANTS)}", key="nowait-variant")
        if not 1 <= self.queue_depth <= LOOP_MAX_DEPTH:
            raise ConfigError(f"{self.queue_depth} is not in 1..{LOOP_MAX_DEPTH}", key="queue-depth")
        if self.nr_hw_queues < 1:
            raise ConfigError(f"{self.nr_hw_queues} hardware queues", key="nr-hw-queues")
        for key, value in (("offset", self.offset_bytes), ("sizelimit", self.sizelimit_bytes)):
            if value < 0:
                raise ConfigError(f"EINVAL: {value} is negative", key=key)
            if value >= 1 << 63:
                raise ConfigError(f"EOVERFLOW: {value} is 2**63 or more", key=key)
