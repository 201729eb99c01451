"""Build hook: mypyc compiles the hot path in one group when mypy and a C compiler are here; else a plain wheel.

Everything else about the package is in pyproject.toml. BLKTWIN_COMPILE: 1 (must compile), 0 (never), auto (default: if
possible). BLKTWIN_DEV=1: one C file a module at -O1, so that an edit rebuilds in seconds (make dev-compile).
To add a compiled module: create it under a COMPILED glob; nothing else. To leave one out: EXCLUDE, with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sysconfig
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
SRC = ROOT / "src"

COMPILED = (
    "blktwin/units.py",
    "blktwin/rng.py",
    "blktwin/block/**/*.py",
    "blktwin/drivers/**/*.py",
    "blktwin/sim/**/*.py",
    "blktwin/fio/ddir.py",
    "blktwin/fio/hist.py",
    "blktwin/fio/stats.py",
    "blktwin/fio/job.py",
    "blktwin/fio/engines.py",
    "blktwin/fio/engine_*.py",
    "blktwin/fio/pattern.py",
    "blktwin/fio/rate.py",
    "blktwin/fio/unit.py",
    "blktwin/fio/random_*.py",
)
"""Globs below src/: the code that runs once or more per simulated I/O."""

EXCLUDE: dict[str, str] = {
    "**/__init__.py": "a docstring and nothing to speed up",
}
"""Patterns below src/ that stay interpreted, each with its reason."""


def compiled_modules() -> list[str]:
    """List the files to compile, sorted, relative to the root (so that builds do not depend on the file system)."""
    found = {path.relative_to(SRC) for pattern in COMPILED for path in SRC.glob(pattern)}
    return sorted(f"src/{p.as_posix()}" for p in found if not any(_matches(p, x) for x in EXCLUDE))


def _matches(path: Path, pattern: str) -> bool:
    return path.match(pattern.removeprefix("**/"))


def missing_tool() -> str:
    """Say what keeps this machine from compiling, or "" when nothing does."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"no C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "no Python.h (python3-dev)"
    if importlib.util.find_spec("mypyc") is None:
        return "no mypyc (pip install mypy)"
    return ""


def extensions() -> list[Extension]:
    """Translate the hot path to C and describe how to build it; empty when this build is an interpreted one."""
    wish = os.environ.get("BLKTWIN_COMPILE", "auto")
    if wish not in ("0", "1", "auto"):
        raise SystemExit(f"BLKTWIN_COMPILE={wish}: 0, 1 or auto")
    missing = missing_tool()
    if wish == "1" and missing:
        raise SystemExit(f"blktwin: BLKTWIN_COMPILE=1, but {missing}")
    modules = compiled_modules()
    if wish == "0" or missing or not modules:
        print(f"blktwin: {missing or 'not compiled as asked'}: the hot path runs interpreted, much slower")
        return []
    for module in modules:
        if not (ROOT / module).with_name("__init__.py").exists():
            raise SystemExit(f"blktwin: {Path(module).parent}/__init__.py is missing: mypyc would misname {module}")

    from mypyc.build import mypycify

    dev = os.environ.get("BLKTWIN_DEV") == "1"
    built = mypycify(
        # Strictness is make check's business: here only real type errors may stop a build.
        ["--config-file=", "--ignore-missing-imports", "--cache-dir=build/mypy-cache", *modules],
        group_name="blktwin",
        target_dir="build/c-dev" if dev else "build/c",
        opt_level="1" if dev else "3",
        debug_level="0",
        multi_file=dev,
    )
    # Without these every function of the hot path stays replaceable from outside, and gcc may inline none of them.
    for extension in built:
        extension.extra_compile_args += ["-fvisibility=hidden", "-fno-semantic-interposition", "-fno-plt"]
    return built


class BuildPy(build_py):
    """Copy the sources, then drop from the build tree what no longer has one (setuptools would ship it for ever)."""

    def run(self) -> None:
        """Copy, then prune."""
        super().run()
        compiled = {str(Path(m).relative_to("src").with_suffix("")) for m in compiled_modules()}
        if not self.distribution.ext_modules:
            compiled = set()
        lib = Path(self.build_lib)
        for path in sorted(lib.glob("blktwin/**/*.*")):
            name = path.relative_to(lib)
            is_library = path.suffix in (".so", ".pyd")
            stem = str(name.parent / name.name.split(".")[0])
            if path.is_file() and (stem not in compiled if is_library else not (SRC / name).exists()):
                path.unlink()


class BuildExt(build_ext):
    """Compile object files in parallel, and only those whose C source or headers are newer."""

    def build_extensions(self) -> None:
        """Build all extensions; the linker waits for its objects."""
        compiler: Any = self.compiler
        compile_one, link = compiler._compile, compiler.link
        jobs: list[Future[None]] = []

        def compile_later(obj: str, src: str, *rest: Any) -> None:
            if not _is_fresh(obj, src):
                jobs.append(pool.submit(compile_one, obj, src, *rest))

        def link_when_ready(*args: Any, **kwargs: Any) -> None:
            for job in jobs:
                job.result()
            jobs.clear()
            link(*args, **kwargs)

        compiler._compile, compiler.link = compile_later, link_when_ready
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            super().build_extensions()


def _is_fresh(obj: str, src: str) -> bool:
    if not os.path.exists(obj):
        return False
    made = os.stat(obj).st_mtime
    inputs = [Path(src), *Path(src).parent.rglob("*.h")]
    return all(path.stat().st_mtime < made for path in inputs)


if __name__ == "__main__":
    os.chdir(ROOT)
    os.makedirs("build", exist_ok=True)
    setup(
        ext_modules=extensions(),
        cmdclass={"build_py": BuildPy, "build_ext": BuildExt},
        # Not beside the sources, where an interpreted run would take it for an installed package.
        options={"egg_info": {"egg_base": "build"}},
    )
