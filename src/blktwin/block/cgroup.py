"""The cgroup tree as the block layer sees it: paths, depth and io weights, with v2 names."""

from __future__ import annotations


class Cgroup:
    """One cgroup; path is absolute, "/" for the root."""

    def __init__(self, path: str, parent: Cgroup | None, serial: int) -> None:
        self.path: str = path
        self.parent: Cgroup | None = parent
        self.serial: int = serial
        """Order of creation; a stable identity for maps and traces."""
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.knobs: dict[str, int] = {}
        """Values written to its files, such as {"io.bfq.weight": 100}."""


class CgroupTree:
    """All cgroups of one machine, created on demand by path."""

    def __init__(self) -> None:
        self.root: Cgroup = Cgroup("/", None, 0)
        self.by_path: dict[str, Cgroup] = {"/": self.root}

    def get(self, path: str) -> Cgroup:
        """Return the cgroup at path ("/a/b" or "a/b"), making it and its parents if they are missing."""
        parts = [part for part in path.split("/") if part]
        group = self.root
        name = ""
        for part in parts:
            name = name + "/" + part
            child = self.by_path.get(name)
            if child is None:
                child = Cgroup(name, group, len(self.by_path))
                self.by_path[name] = child
            group = child
        return group
