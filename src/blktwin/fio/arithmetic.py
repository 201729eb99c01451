"""Integer arithmetic in option values: `(2*4k)`, and `8*$pagesize` once the keyword is replaced.

Operators + - * / % ^ and parentheses; a number may be decimal or 0x hexadecimal and may carry a unit. Division cuts
towards zero. Results are limited to 63 bits, nesting to 32 levels, so that no input can take long.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from blktwin.errors import ConfigError

_TOKEN = re.compile(r"\s*(?:(0[xX][0-9a-fA-F]+|\d+\.?\d*|\.\d+)([a-zA-Z]*)|(.))")
_LIMIT = 2**63 - 1
_DEPTH_MAX = 32
Multiplier = Callable[[str], int | None]


def evaluate(text: str, multiplier: Multiplier) -> int:
    """Compute an expression; multiplier(unit) says what a unit stands for, None if unknown.

    Errors: ConfigError for anything that is not one whole expression, division by zero, or a result beyond 63 bits.
    """
    parser = _Parser(text, multiplier)
    value = parser.sum(0)
    if parser.peek() != "":
        raise ConfigError(f"{parser.peek()!r} is unexpected in the expression {text!r}")
    return value


class _Parser:
    """Recursive descent: sum <- product <- power <- unary <- number or (sum)."""

    def __init__(self, text: str, multiplier: Multiplier) -> None:
        self._text = text
        self._multiplier = multiplier
        self._tokens = [m.groups() for m in _TOKEN.finditer(text.strip())]
        self._at = 0

    def peek(self) -> str:
        if self._at >= len(self._tokens):
            return ""
        number, unit, other = self._tokens[self._at]
        return str(other) if other else f"{number}{unit}"

    def _take(self) -> tuple[str | None, str | None, str | None]:
        if self._at >= len(self._tokens):
            raise ConfigError(f"the expression {self._text!r} ends too early")
        self._at += 1
        number, unit, other = self._tokens[self._at - 1]
        return number, unit, other

    def _limited(self, value: int) -> int:
        if abs(value) > _LIMIT:
            raise ConfigError(f"the expression {self._text!r} is too big")
        return value

    def sum(self, depth: int) -> int:
        value = self._product(depth)
        while self.peek() in ("+", "-"):
            operator = self._take()[2]
            right = self._product(depth)
            value = self._limited(value + right if operator == "+" else value - right)
        return value

    def _product(self, depth: int) -> int:
        value = self._power(depth)
        while self.peek() in ("*", "/", "%"):
            operator = self._take()[2]
            right = self._power(depth)
            if operator == "*":
                value = self._limited(value * right)
                continue
            if right == 0:
                raise ConfigError(f"division by zero in {self._text!r}")
            quotient = abs(value) // abs(right) * (1 if (value < 0) == (right < 0) else -1)
            value = quotient if operator == "/" else value - quotient * right
        return value

    def _power(self, depth: int) -> int:
        base = self._unary(depth)
        if self.peek() != "^":
            return base
        self._take()
        if depth >= _DEPTH_MAX:
            raise ConfigError(f"the expression {self._text!r} is nested too deeply")
        exponent = self._power(depth + 1)
        if not 0 <= exponent <= 63:
            raise ConfigError(f"exponent {exponent} in {self._text!r}: 0 to 63 are possible")
        return self._limited(base**exponent)

    def _unary(self, depth: int) -> int:
        if depth >= _DEPTH_MAX:
            raise ConfigError(f"the expression {self._text!r} is nested too deeply")
        number, unit, other = self._take()
        if number is not None:
            return self._number(number, unit or "")
        if other in ("-", "+"):
            value = self._unary(depth + 1)
            return -value if other == "-" else value
        if other != "(":
            raise ConfigError(f"{other!r} is unexpected in the expression {self._text!r}")
        value = self.sum(depth + 1)
        if self._take()[2] != ")":
            raise ConfigError(f"a ) is missing in the expression {self._text!r}")
        return value

    def _number(self, number: str, unit: str) -> int:
        factor = self._multiplier(unit)
        if factor is None:
            raise ConfigError(f"unit {unit!r} is unknown in the expression {self._text!r}")
        if len(number) > 40:
            raise ConfigError(f"the expression {self._text!r} is too big")
        if number[:2] in ("0x", "0X"):
            return self._limited(int(number, 16) * factor)
        whole, _, fraction = number.partition(".")
        scale = 10 ** len(fraction)
        return self._limited((int(whole or "0") * scale + int(fraction or "0")) * factor // scale)
