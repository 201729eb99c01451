"""How the lab's own commands (python -m blktwin.lab.demo and others) end: an error or Ctrl-C is one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from blktwin.errors import EXIT_INTERRUPTED, BlktwinError
from blktwin.lab.streams import say


def run_command(main: Callable[[], None]) -> NoReturn:
    """Run a command and exit: 0, 1 with an error, 130 when interrupted."""
    try:
        main()
    except BlktwinError as error:
        raise SystemExit(f"blktwin: {error}") from None
    except KeyboardInterrupt:
        say("blktwin: interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from None
    raise SystemExit(0)
