"""A broken rule under kernel-compat is that kernel's, and says so; without a switch it is ours."""

from __future__ import annotations

import pytest

from blktwin.errors import BlktwinError, ConfigError, LoopViolation
from blktwin.fio import jobfile
from blktwin.lab.defects import defects_told
from blktwin.lab.run import simulate
from blktwin.lab.stack_build import assemble
from blktwin.lab.stack_file import parse_stack
from blktwin.lab.stack_said import StackFile

STACK = """
[device."/dev/nullb0"]
[file."/d.img"]
size = "16m"
[loop.loop0]
backing-file = "/d.img"
direct-io = true
policy = "nowait_first"
"""


def read(compat: str) -> StackFile:
    """Return a stack with switches."""
    return parse_stack(STACK + compat, "s.toml").read()


def run(said: StackFile) -> None:
    """Run batches of reads."""
    words = "--name=j --filename=/dev/loop0 --direct=1 --rw=randread --ioengine=libaio --iodepth=8 --number_ios=64"
    simulate(jobfile.load([], [*words.split(), "--iodepth_batch=8"], env={}), assemble(said))


def test_a_bug_that_is_switched_on_is_named() -> None:
    """Requests that are left in the plug: the run ends with what broke, and the switch with its place."""
    with pytest.raises(LoopViolation, match=r"halt with .*: j, with kernel-compat plug-shared of loop0 \(s\.toml:5\)$"):
        run(read("kernel-compat = {plug-shared = true}\n"))
    run(read(""))


def test_only_what_may_be_the_switch_is_blamed_on_it() -> None:
    loops = read('kernel-compat = "v4"\n').loops
    with (
        pytest.raises(LoopViolation, match=r"^a halt, with kernel-compat .* and 6 more of loop0 "),
        defects_told(loops),
    ):
        raise BlktwinError("a halt (please report this)")
    with pytest.raises(ConfigError, match="^wrong$"), defects_told(loops):
        raise ConfigError("wrong")
    with pytest.raises(LoopViolation, match="^slept$"), defects_told(loops):
        raise LoopViolation("slept")
    with pytest.raises(AssertionError, match="^ours$"), defects_told(read("").loops):
        raise AssertionError("ours")
