"""Print what pip must install before this checkout can be built and run, one requirement a line.

python tools/requirements.py run|dev: pyproject.toml stays the only list; run is the build's and the package's own
requirements, dev adds the tests' and the checks'.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def requirements(kind: str) -> list[str]:
    """Collect the requirements of "run" or "dev", sorted, without repeats."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    wanted = {*project["build-system"]["requires"], *project["project"]["dependencies"]}
    if kind == "dev":
        wanted.update(project["project"]["optional-dependencies"]["dev"])
    return sorted(wanted)


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))
