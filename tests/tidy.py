"""The rules of the source tree, as functions from source text to a list of complaints (test_tidy.py runs them).

Each takes text, not files, so that a test can show it able to fail. A complaint is "line: what is wrong".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

FILE_LINES = 450
FUNCTION_LINES = 60

LAYERS: tuple[tuple[str, ...], ...] = (
    ("units", "errors", "rng", "buildinfo"),
    ("block",),
    ("drivers",),
    ("trace",),
    ("fio",),
    ("sim", "live"),
    ("kernel",),
    ("lab",),
    ("cli",),
    ("__main__",),
)
"""Left to right: a module imports from its left or from its own folder (docs/design.md)."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

FORBIDDEN_TEXT = (
    (r"(?<![\w.$}])/(?:wo" r"rk|ro" r"ot)/", "a path of one machine"),
    (r"/t" r"mp/(?:w|brief|bash_jobs)\b", "a path of one machine"),
    (r"(?:py" r"pi|pythonhos" r"ted)\.org|deb\.deb" r"ian\.org|npm" r"js\.org", "the host of a registry"),
    (r"\bfarm-(?:ben" r"ch|stu" r"dio)\b|\.lib" r"rary/", "a tool that is not the project's"),
)

_KERNEL_FILE = r"\b[\w./-]+\.[chS]\b.*?\bv\d+\.\d+"
_KERNEL_NAME = r"(?:\b\w+\(\)|\b(?:struct|enum|union)\s+\w+|\b[A-Z][A-Z0-9_]{3,}).*?"
_IMPURE = {"time", "random", "datetime", "os", "secrets", "blktwin.rng"}
_SLOW_IMPORTS = {"dataclasses", "enum", "heapq", "collections"}
_SLOW_TYPING = {"NamedTuple", "Protocol", "TypedDict"}


def file_size(text: str) -> list[str]:
    """A file that no longer fits one sitting."""
    lines = text.count("\n")
    return [f"1: {lines} lines, at most {FILE_LINES}"] if lines > FILE_LINES else []


def function_size(tree: ast.Module) -> list[str]:
    """Functions that are too long, docstring included."""
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                out.append(f"{node.lineno}: {node.name}() has {lines} lines, at most {FUNCTION_LINES}")
    return out


def docstrings(tree: ast.Module) -> list[str]:
    """Modules, public classes and public functions of a module without a docstring."""
    out = [] if ast.get_docstring(tree) else ["1: the module has no docstring"]
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                out.append(f"{node.lineno}: {node.name} is public and has no docstring")
    return out


def policy_purity(tree: ast.Module) -> list[str]:
    """What a policy (block/) must not have: floats, clocks, randomness, output, and knowledge of where it runs."""
    out = []
    for node in ast.walk(tree):
        what = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            what = f"float {node.value}"
        elif isinstance(node, ast.Name) and node.id in ("float", "print", "open", "input"):
            what = node.id
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            what = "/ makes a float: use //"
        elif isinstance(node, ast.Name | ast.Attribute | ast.arg | ast.FunctionDef):
            name = _name_of(node)
            what = name if name.startswith(("is_sim", "is_live", "isSim")) else ""
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bad = sorted({_root(m) for m in _imported(node)} & _IMPURE)
            what = ", ".join(f"import {m}" for m in bad)
        if what:
            out.append(f"{getattr(node, 'lineno', 0)}: {what}")
    return out


def hot_path(tree: ast.Module) -> list[str]:
    """What is slow under mypyc, or makes an order depend on addresses or hash seeds, in a compiled module."""
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            slow = set(_imported(node)) & _SLOW_IMPORTS
            if isinstance(node, ast.ImportFrom) and node.module == "collections":
                slow = {a.name for a in node.names} & {"deque", "namedtuple"}
            if isinstance(node, ast.ImportFrom) and node.module == "typing":
                slow = {a.name for a in node.names} & _SLOW_TYPING
            out += [f"{node.lineno}: {name} is slow when compiled" for name in sorted(slow)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("id", "hash"):
            out.append(f"{node.lineno}: {node.func.id}() differs from run to run")
        elif isinstance(node, ast.For | ast.comprehension) and _is_set(node.iter):
            out.append(f"{node.iter.lineno}: the order of a set differs from run to run")
    return out


def import_direction(module: str, tree: ast.Module) -> list[str]:
    """Imports from the right, or between two folders of one rank; type-only imports count too."""
    own = _top(module)
    if own == "":
        return [f"{line}: the package itself imports nothing" for line, _ in package_imports(module, tree)]
    if own not in RANK:
        return [f"1: {own} has no place in LAYERS (tests/tidy.py)"]
    out = []
    for line, target in package_imports(module, tree):
        other = _top(target)
        if other not in ("", own) and RANK.get(other, len(LAYERS)) >= RANK[own] > 0:
            out.append(f"{line}: {own} imports {target}")
        elif other not in ("", own) and RANK[own] == 0 and RANK.get(other, 1) > 0:
            out.append(f"{line}: {own} imports {target}")
    return out


def import_cycles(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Cycles of a graph module -> modules that it imports when it runs; each cycle once, as "a -> b -> a"."""
    state: dict[str, int] = {}
    path: list[str] = []
    out: list[str] = []

    def visit(module: str) -> None:
        state[module] = 1
        path.append(module)
        for target in sorted(set(graph.get(module, ()))):
            if state.get(target) == 1:
                out.append(" -> ".join([*path[path.index(target) :], target]))
            elif target not in state:
                visit(target)
        path.pop()
        state[module] = 2

    for module in sorted(graph):
        if module not in state:
            visit(module)
    return out


def package_imports(module: str, tree: ast.Module, *, run_time: bool = False) -> list[tuple[int, str]]:
    """List (line, module) of each import of our own package; run_time leaves out TYPE_CHECKING blocks.

    `from blktwin.block import bio` names blktwin.block.bio, which may be an attribute: callers look it up.
    """
    skipped: set[ast.AST] = set()
    if run_time:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and _name_of(node.test) == "TYPE_CHECKING":
                skipped.update(inner for stmt in node.body for inner in ast.walk(stmt))
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in skipped:
            if isinstance(node, ast.ImportFrom) and node.level:
                base = ".".join(module.split(".")[: -node.level])
                names = [f"{base}.{node.module}" if node.module else f"{base}.{a.name}" for a in node.names]
            else:
                names = list(_imported(node))
            out += [(node.lineno, name) for name in names if name.split(".")[0] == "blktwin"]
    return sorted(set(out))


def head_lines(tree: ast.Module) -> int:
    """Count the lines of the module's docstring, which speaks of the whole file."""
    return (tree.body[0].end_lineno or 0) if ast.get_docstring(tree) else 0


def kernel_lines(text: str, head: int = 0) -> list[str]:
    """`Kernel:` lines without a function (or type), a file and a version; the first head lines need no function."""
    lines = text.splitlines()
    out = []
    for number, line in enumerate(lines, 1):
        match = re.match(r"\s*(?:#+\s*)?Kernel:(.*)", line)
        if match:
            entry = match[1]
            for following in lines[number:]:
                if not following.strip().strip('"') or re.match(r"\s*(?:#+\s*)?[A-Z][a-z]+:", following):
                    break
                entry += " " + following.strip()
            if not re.search(_KERNEL_FILE if number <= head else _KERNEL_NAME + _KERNEL_FILE, entry):
                out.append(f"{number}: Kernel: needs function(), file and version: {line.strip()}")
    return out


def forbidden_text(text: str) -> list[str]:
    """Words that belong to the machine a file was written on."""
    out = []
    for pattern, what in FORBIDDEN_TEXT:
        out += [f"{text.count(chr(10), 0, m.start()) + 1}: {what}: {m[0]}" for m in re.finditer(pattern, text)]
    return out


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" if node.module.startswith("blktwin") else node.module
                    for alias in node.names)  # fmt: skip


def _root(module: str) -> str:
    """blktwin.block.bio -> blktwin.block; os.path -> os."""
    parts = module.split(".")
    return ".".join(parts[: 2 if parts[0] == "blktwin" else 1])


def _name_of(node: ast.AST) -> str:
    for field in ("id", "attr", "arg", "name"):
        name = getattr(node, field, None)
        if isinstance(name, str):
            return name
    return ""


def _is_set(node: ast.expr) -> bool:
    return isinstance(node, ast.Set | ast.SetComp) or (
        isinstance(node, ast.Call) and _name_of(node.func) in ("set", "frozenset")
    )


def _top(module: str) -> str:
    """blktwin.block.bfq.data -> block; blktwin and blktwin.__version__ -> ""."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (parts[1] in RANK or not parts[1].startswith("__")) else ""
