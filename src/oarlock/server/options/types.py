"""The types of options: how a value is read from a flag or a configuration file, checked and shown.

Formats are those of Kubernetes: Go's durations (``1m30s``), quantities (``256Mi``), lists by comma.
Must not know: which options there are. See also: `option`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from oarlock.meta.quantities import QuantityError, format_quantity, parse_quantity
from oarlock.meta.times import TimeError, parse_go_duration
from oarlock.storage.passwords import without_password

_TRUE: Final = frozenset({"true", "1", "t", "yes"})
_FALSE: Final = frozenset({"false", "0", "f", "no"})
_LARGEST: Final = 2**63 - 1


class OptionType(ABC):
    """How the values of an option are read, checked and shown. Methods that read raise ValueError with a short text."""

    unit: str
    """What stands for the value in ``--help``."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """The value of a flag."""

    @abstractmethod
    def read(self, tree: Any) -> Any:
        """The value of a field in a configuration file."""

    @abstractmethod
    def problem(self, value: Any) -> str:
        """What is wrong with a value, also of one that was set in Python; ``""`` if nothing is."""

    def tree(self, value: Any) -> Any:
        """The value as a configuration file has it. Shows no secret."""
        return self.text(value)

    def text(self, value: Any) -> str:
        """The value as a flag takes it. Shows no secret, also where a URL was given by mistake."""
        return without_password(str(value))


class StringType(OptionType):
    """Any text."""

    def __init__(self, unit: str) -> None:
        self.unit = unit

    def parse(self, text: str) -> str:
        return text

    def read(self, tree: Any) -> str:
        return _string(tree)

    def problem(self, value: Any) -> str:
        return _text_problem(value) if isinstance(value, str) else "must be a string"


class WordType(StringType):
    """One of a few words."""

    def __init__(self, unit: str, *words: str) -> None:
        super().__init__(unit)
        self.words = words

    def problem(self, value: Any) -> str:
        return super().problem(value) or ("" if value in self.words else f"must be {' or '.join(self.words)}")


class URLType(StringType):
    """A URL, which may have a password: it is never shown."""

    def __init__(self, unit: str = "URL") -> None:
        super().__init__(unit)


class BooleanType(OptionType):
    """True or false. A flag without a value is true."""

    unit = "BOOL"

    def parse(self, text: str) -> bool:
        value = text.lower()
        if value not in _TRUE | _FALSE:
            raise ValueError("give true or false")
        return value in _TRUE

    def read(self, tree: Any) -> bool:
        if not isinstance(tree, bool):
            raise ValueError("write true or false, without quotes")
        return tree

    def problem(self, value: Any) -> str:
        return "" if isinstance(value, bool) else "must be True or False"

    def text(self, value: Any) -> str:
        return "true" if value else "false"

    def tree(self, value: Any) -> Any:
        return value


class IntegerType(OptionType):
    """A whole number between two bounds."""

    def __init__(self, unit: str = "N", *, minimum: int = 0, maximum: int = _LARGEST) -> None:
        self.unit = unit
        self._minimum, self._maximum = minimum, maximum

    def parse(self, text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            raise ValueError("give a whole number")
        return int(text)

    def read(self, tree: Any) -> int:
        if not isinstance(tree, int) or isinstance(tree, bool):
            raise ValueError("write a whole number, without quotes")
        return tree

    def problem(self, value: Any) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return "must be a whole number"
        if self._minimum <= value <= self._maximum:
            return ""
        if self._maximum == _LARGEST and value < self._minimum:
            return f"must be at least {self._minimum}"
        return f"must be between {self._minimum} and {self._maximum}"

    def tree(self, value: Any) -> Any:
        return value


class FractionType(OptionType):
    """A number between 0 and `maximum`, written in decimals."""

    def __init__(self, unit: str = "NUMBER", *, maximum: float = 1e6) -> None:
        self.unit = unit
        self._maximum = maximum

    def parse(self, text: str) -> float:
        if not text.isascii() or len(text) > 32 or "_" in text:
            raise ValueError("give a number, such as 0.001")
        try:
            return float(text)
        except ValueError:
            raise ValueError("give a number, such as 0.001") from None

    def read(self, tree: Any) -> float:
        if isinstance(tree, bool) or not isinstance(tree, int | float):
            raise ValueError("write a number, without quotes")
        return float(tree)

    def problem(self, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return "must be a number"
        return "" if 0 <= value <= self._maximum else f"must be between 0 and {self._maximum:g}"

    def tree(self, value: Any) -> Any:
        return value

    def text(self, value: Any) -> str:
        return f"{value:g}"


class DurationType(OptionType):
    """A duration: seconds in Python, written as in Go: ``1m30s``. Not negative, and not 0 if it must be `positive`."""

    unit = "DURATION"

    def __init__(self, *, positive: bool = False) -> None:
        self._positive = positive

    def parse(self, text: str) -> float:
        try:
            return parse_go_duration(text)
        except TimeError as error:
            raise ValueError(f"{error}; write a duration like 90s or 1m30s") from None

    def read(self, tree: Any) -> float:
        if not isinstance(tree, str):
            raise ValueError("write a duration like 90s or 1m30s")
        return self.parse(tree)

    def problem(self, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return "must be a number of seconds"
        if value < 0 or (self._positive and value == 0):
            return f"must be {'more than' if self._positive else 'at least'} 0"
        return ""

    def text(self, value: Any) -> str:
        return _go_duration(value)


def _go_duration(seconds: float) -> str:
    """As Go's ``Duration.String`` writes it: ``1m0s``, ``1.5s``, ``300ms``."""
    nanoseconds = round(seconds * 1_000_000_000)
    for scale, unit in ((1_000, "ns"), (1_000_000, "µs"), (1_000_000_000, "ms")):
        if 0 < nanoseconds < scale:
            return _decimal(nanoseconds, scale // 1_000) + unit
    minutes, rest = divmod(nanoseconds, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if hours or minutes else ""]
    return "".join(parts) + _decimal(rest, 1_000_000_000) + "s"


def _decimal(value: int, scale: int) -> str:
    whole, rest = divmod(value, scale)
    digits = f"{rest:0{len(str(scale)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)


class SizeType(OptionType):
    """A number of bytes, written as a quantity: ``256Mi``, ``1500k`` or plain digits."""

    unit = "BYTES"

    def parse(self, text: str) -> int:
        try:
            exact = parse_quantity(text)
        except QuantityError:
            raise ValueError("write a number of bytes, such as 3145728 or 256Mi") from None
        if exact != int(exact):
            raise ValueError("must be a whole number of bytes")
        return int(exact)

    def read(self, tree: Any) -> int:
        if isinstance(tree, bool) or not isinstance(tree, str | int):
            raise ValueError("write a number of bytes, such as 3145728 or 256Mi")
        return tree if isinstance(tree, int) else self.parse(tree)

    def problem(self, value: Any) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return "must be a whole number of bytes"
        return "" if 1 <= value <= _LARGEST else f"must be between 1 and {_LARGEST}"

    def text(self, value: Any) -> str:
        return format_quantity(value, binary=True)


class PathType(OptionType):
    """A file or directory. An empty text means none."""

    def __init__(self, unit: str = "FILE") -> None:
        self.unit = unit

    def parse(self, text: str) -> Path | None:
        return Path(text) if text else None

    def read(self, tree: Any) -> Path | None:
        return self.parse(_string(tree))

    def problem(self, value: Any) -> str:
        if not isinstance(value, Path):
            return "must be a Path"
        return _text_problem(str(value))


class StringListType(OptionType):
    """A list of texts, separated by commas in a flag. `normal` normalizes an item, or raises ValueError."""

    _item: type = str
    _items = "strings"

    def __init__(self, unit: str, normal: Callable[[str], Any] = str) -> None:
        self.unit = unit
        self._normal = normal

    def parse(self, text: str) -> tuple[Any, ...]:
        return self._all(part for part in map(str.strip, text.split(",")) if part)

    def read(self, tree: Any) -> tuple[Any, ...]:
        if not isinstance(tree, list) or not all(isinstance(item, str) for item in tree):
            raise ValueError("write a list of strings")
        return self._all(tree)

    def _all(self, items: Any) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(map(self._normal, items)))

    def problem(self, value: Any) -> str:
        if not isinstance(value, tuple | list) or not all(isinstance(item, self._item) for item in value):
            return f"must be a tuple of {self._items}"
        try:
            self._all(value)
        except ValueError as error:
            return str(error)
        return _text_problem("".join(map(str, value)))

    def text(self, value: Any) -> str:
        return ",".join(map(str, value))

    def tree(self, value: Any) -> Any:
        return list(map(str, value))


class PathListType(StringListType):
    """Files, in a flag separated by commas."""

    _item = Path
    _items = "Paths"

    def __init__(self) -> None:
        super().__init__("FILES", Path)


class SeparateListType(StringListType):
    """Texts that may have commas: a flag has one of them, and is repeated."""

    def parse(self, text: str) -> tuple[Any, ...]:
        return self._all([text] if text else [])


def _text_problem(text: str) -> str:
    """Control characters are mistakes, and would break lines of the log."""
    return (
        "must not have control characters" if any(character < " " or character == "\x7f" for character in text) else ""
    )


def _string(tree: Any) -> str:
    if not isinstance(tree, str):
        raise ValueError("write a string; one that looks like a number or a boolean needs quotes")
    return tree
