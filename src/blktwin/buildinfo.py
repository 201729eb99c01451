"""Which build runs: compiled by mypyc, or the same source interpreted. Results are the same; speed is not."""

from __future__ import annotations

import importlib.util

import blktwin

_WITNESS = "blktwin.block.bio"


def is_compiled(module: str = _WITNESS) -> bool:
    """Say whether a module (default: of the hot path) would be imported as compiled code; False if there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


def describe() -> str:
    """Name version and build in one line, for --version and for the install step."""
    kind = "compiled" if is_compiled() else "interpreted: same results, much slower"
    return f"blktwin {blktwin.__version__} ({kind})"


if __name__ == "__main__":
    print(describe())
