"""The source tree keeps its rules (tests/tidy.py), and each rule is able to fail."""

from __future__ import annotations

import ast
import runpy
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import tidy

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"
TreeRule = Callable[[ast.Module], list[str]]


@cache
def _files() -> list[Path]:
    """Every file of the project, tracked or about to be; all files below the root when this is no git checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
        found = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        dirs = ("src", "tests", "tools", "docs")
        found = [p for d in dirs for p in (ROOT / d).rglob("*")] + list(ROOT.glob("*.*"))
    return sorted(p for p in found if p.is_file() and "__pycache__" not in p.parts)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def _modules() -> dict[str, Path]:
    """Module name -> file of our package."""
    out = {}
    for path in _files():
        if path.suffix == ".py" and path.is_relative_to(SRC):
            parts = path.relative_to(SRC).with_suffix("").parts
            out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


def _complaints(paths: list[Path], rule: Callable[[Path], list[str]]) -> list[str]:
    assert paths, "the rule looked at no file"
    return [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in rule(path)]


def _python() -> list[Path]:
    return [p for p in _files() if p.suffix == ".py"]


def _report(complaints: list[str]) -> None:
    assert not complaints, "\n" + "\n".join(complaints)


def test_file_size() -> None:
    """Each Python file fits one sitting."""
    _report(_complaints(_python(), lambda p: tidy.file_size(p.read_text())))


def test_function_size() -> None:
    """Each function fits a screen."""
    _report(_complaints(_python(), lambda p: tidy.function_size(_tree(p))))


def test_docstrings() -> None:
    """Public names of the package say what they are."""
    _report(_complaints(list(_modules().values()), lambda p: tidy.docstrings(_tree(p))))


def test_policies_are_pure() -> None:
    """block/ knows no clock, randomness, float, output or place."""
    _report(_complaints([p for m, p in _modules().items() if m.startswith("blktwin.block")],
                        lambda p: tidy.policy_purity(_tree(p))))  # fmt: skip


def test_hot_path() -> None:
    """Compiled modules avoid what mypyc is slow at; a module off the hot path goes to EXCLUDE in setup.py."""
    compiled = [ROOT / m for m in runpy.run_path(str(ROOT / "setup.py"))["compiled_modules"]()]
    _report(_complaints(compiled, lambda p: tidy.hot_path(_tree(p))))


def test_import_direction() -> None:
    """Modules import from their left only."""
    names = {path: name for name, path in _modules().items()}
    _report(_complaints(list(names), lambda p: tidy.import_direction(names[p], _tree(p))))


def test_import_cycles() -> None:
    """No module imports itself through others when the program runs (type-only imports may)."""
    modules = _modules()
    graph: dict[str, list[str]] = {}
    for name, path in modules.items():
        dotted = f"{name}.__init__" if path.name == "__init__.py" else name
        targets = [t for _, t in tidy.package_imports(dotted, _tree(path), run_time=True)]
        graph[name] = [t if t in modules else t.rpartition(".")[0] for t in targets]
    _report(tidy.import_cycles(graph))


def test_kernel_lines() -> None:
    """Each port says of what it is one."""
    _report(
        _complaints(list(_modules().values()), lambda p: tidy.kernel_lines(p.read_text(), tidy.head_lines(_tree(p))))
    )


def test_forbidden_text() -> None:
    """Nothing of the machine a file was written on."""

    def rule(path: Path) -> list[str]:
        try:
            return tidy.forbidden_text(path.read_text())
        except UnicodeDecodeError:
            return []

    _report(_complaints(_files(), rule))


# Each rule is able to fail: a snippet that breaks it, and one close by that does not.

TREE_CASES: list[tuple[TreeRule, str, int]] = [
    (tidy.function_size, "def f():\n" + "    x = 1\n" * 60, 1),
    (tidy.function_size, "def f():\n" + "    x = 1\n" * 59, 0),
    (tidy.docstrings, "x = 1", 1),
    (tidy.docstrings, '"""Doc."""\nclass A: pass\ndef f(): pass\ndef _g(): pass', 2),
    (tidy.docstrings, '"""Doc."""\nclass A:\n    """Doc."""', 0),
    (tidy.policy_purity, "x = 1.5", 1),
    (tidy.policy_purity, "def f(x: float): pass", 1),
    (tidy.policy_purity, "x = a / b\nx /= 2", 2),
    (tidy.policy_purity, "import time\nfrom random import choice\nimport os.path\nfrom blktwin.rng import Rng", 4),
    (tidy.policy_purity, "print(1)", 1),
    (tidy.policy_purity, "if machine.is_simulated: pass", 1),
    (tidy.policy_purity, "x = a // b\nlatency_time = x\nrq.is_sync = True", 0),
    (tidy.hot_path, "from dataclasses import dataclass", 1),
    (tidy.hot_path, "import heapq\nfrom enum import IntEnum", 2),
    (tidy.hot_path, "from collections import deque\nfrom typing import Protocol, cast", 2),
    (tidy.hot_path, "from collections.abc import Iterator\nfrom typing import cast", 0),
    (tidy.hot_path, "x = id(y)\nz = hash(y)", 2),
    (tidy.hot_path, "for x in set(y): pass\nz = [a for a in {1, 2}]", 2),
    (tidy.hot_path, "for x in sorted(set(y)): pass\nz = x in {1, 2}", 0),
]


@pytest.mark.parametrize(("rule", "source", "count"), TREE_CASES)
def test_rule_can_fail(rule: TreeRule, source: str, count: int) -> None:
    """Each rule on the AST counts exactly what is wrong in a snippet."""
    assert len(rule(ast.parse(source))) == count, rule(ast.parse(source))


def test_file_size_can_fail() -> None:
    """One line more than the limit."""
    assert tidy.file_size("x\n" * 451)
    assert not tidy.file_size("x\n" * 450)


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("blktwin.block.bio", "import blktwin.sim.events", True),
        ("blktwin.block.bio", "from blktwin import sim", True),
        ("blktwin.block.bio", "from blktwin.drivers.null import Null", True),
        ("blktwin.block.bio", "from ..drivers import null", True),
        ("blktwin.block.bio", "def f():\n    from blktwin.lab import run", True),
        ("blktwin.sim.world", "from blktwin.live import uring", True),
        ("blktwin.errors", "from blktwin.block import bio", True),
        ("blktwin.unheard.of", "x = 1", True),
        ("blktwin", "from blktwin.errors import ConfigError", True),
        ("blktwin.block.bio", "from blktwin.errors import ConfigError\nfrom . import request\nimport sys", False),
        ("blktwin.block.bfq.data", "from ..bio import Bio\nfrom blktwin.block.request import Request", False),
        ("blktwin.cli", "from blktwin import __version__\nfrom blktwin.lab.run import run", False),
    ],
)
def test_import_direction_can_fail(module: str, source: str, wrong: bool) -> None:
    """Absolute, relative, nested and sideways imports are all seen."""
    assert bool(tidy.import_direction(module, ast.parse(source))) is wrong


def test_import_cycles_can_fail() -> None:
    """A cycle of two, one of three, and none in a diamond."""
    assert tidy.import_cycles({"a": ["b"], "b": ["a"]}) == ["a -> b -> a"]
    assert tidy.import_cycles({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b -> c -> b"]
    assert tidy.import_cycles({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}) == []


def test_type_only_imports_make_no_cycle() -> None:
    """TYPE_CHECKING blocks count for the direction, not for cycles."""
    tree = ast.parse("if TYPE_CHECKING:\n    from blktwin.block.queue import Q\nfrom blktwin.block import bio")
    assert [m for _, m in tidy.package_imports("blktwin.block.tags", tree)] == [
        "blktwin.block.queue.Q",
        "blktwin.block.bio",
    ]
    assert [m for _, m in tidy.package_imports("blktwin.block.tags", tree, run_time=True)] == ["blktwin.block.bio"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("    Kernel: bfq_better_to_idle(), block/bfq-iosched.c:4587, v7.2.", False),
        ("    Kernel: struct request_queue, include/linux/blkdev.h, v6.12.", False),
        ("    Kernel: BLK_MAX_REQUEST_COUNT, block/blk.h, v6.12.", False),
        ("    Kernel: blk_mq_get_tag(), block/blk-mq-tag.c,\n    as it stood in v6.12.", False),
        ("    Kernel: blk_mq_get_tag(), block/blk-mq-tag.c.\n\n    It came in v6.12.", True),
        ("    Kernel: blk_mq_get_tag(), v6.12.", True),
        ("    Kernel: block/blk-mq-tag.c, v6.12.", True),
        ("    # Kernel: something, somewhere", True),
        ("no such line", False),
    ],
)
def test_kernel_lines_can_fail(text: str, wrong: bool) -> None:
    """Function, file and version are each required."""
    assert bool(tidy.kernel_lines(text)) is wrong


def test_kernel_lines_of_a_head_name_a_file() -> None:
    """The module's docstring may speak of a whole file, never without its version."""
    assert tidy.kernel_lines("Kernel: block/blk-flush.c, v6.12.", head=1) == []
    assert tidy.kernel_lines("Kernel: block/blk-flush.c.", head=1)
    assert tidy.head_lines(ast.parse('"""A.\n\nB.\n"""\nx = 1')) == 4


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see /wo" + "rk/main", True),
        ("cd /ro" + "ot/x", True),
        ("log in /t" + "mp/w/v", True),
        ("https://py" + "pi.org/simple", True),
        ("run farm-" + "bench", True),
        ("/sys/fs/cgroup/root/c1, $HOME/work/, docs/work/x and /tmp/x", False),
    ],
)
def test_forbidden_text_can_fail(text: str, wrong: bool) -> None:
    """Machine paths and hosts are seen; paths that only look like them are not."""
    assert bool(tidy.forbidden_text(text)) is wrong
