"""`option` declares an option as a field of an `OptionGroup`, a frozen dataclass.

    @dataclass(frozen=True, kw_only=True, repr=False)
    class LimitOptions(OptionGroup):
        title = "Limits"

        request_timeout_s: float = option(60.0, DurationType(positive=True), "How long a request may take.")

The flag is ``--request-timeout``, the field in a configuration file ``requestTimeout``. Every way to make a group
validates it, and raises one `ConfigError` with all problems.
Must not know: command lines, files.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import MISSING, fields
from typing import Any, ClassVar

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.types import OptionType
from oarlock.storage.passwords import without_password

_METADATA = "oarlock option"
_INITIALISMS = frozenset({"ca", "id", "san", "url"})


@dataclass(frozen=True, slots=True)
class Option:
    """The declaration of one option.

    `field` is its name in Python, `flag` on the command line, without dashes; for an argument, which has no flag, it is
    what stands for it in ``--help``. `in_file` is whether a configuration file may set it. `also` is a flag by which an
    argument may be given, too; `by_position` says that an option may be given as an argument, after the others.
    """

    type: OptionType
    default: Any
    help: str
    flag: str = ""
    short: str = ""
    is_argument: bool = False
    in_file: bool = True
    file_field: str = ""
    field: str = ""
    group: str = ""
    also: str = ""
    by_position: bool = False

    @property
    def required(self) -> bool:
        return self.default is MISSING

    def problem(self, value: Any) -> str:
        """What is wrong with a value, ``""`` if nothing is. None is right where it is the default."""
        return "" if value is None and self.default is None else self.type.problem(value)

    def text(self, value: Any) -> str:
        """The value as it may be shown."""
        return "" if value is None else self.type.text(value)


def option(
    default: Any,
    type: OptionType,
    help: str,
    *,
    flag: str = "",
    short: str = "",
    file_field: str = "",
    in_file: bool = True,
) -> Any:
    """A field of an `OptionGroup` with a flag. The flag is by default the field's name without its unit.

    `short` is a one-letter alias. The name in configuration files is the flag in camelCase, or `file_field`.
    """
    declared = Option(type, default, help, flag, short, in_file=in_file, file_field=file_field)
    return dataclasses.field(default=default, metadata={_METADATA: declared})


def argument(type: OptionType, help: str, *, default: Any = MISSING, also: str = "") -> Any:
    """A field that is given by position, shown as the unit of `type`, or by the flag `also`."""
    declared = Option(type, default, help, type.unit, is_argument=True, in_file=False, also=also)
    return dataclasses.field(default=default, metadata={_METADATA: declared})


@dataclass(frozen=True, slots=True)
class Problem:
    """An invalid value of a field. `text` names other fields in backticks: ``give `tls_cert_file` too``."""

    field: str
    text: str


_backticks = re.compile(r"`(\w+)`")


def quoted_fields(text: str) -> list[str]:
    """The fields that the text of a problem names."""
    return _backticks.findall(text)


class ConfigError(ValueError):
    """Options that can't be used. `lines` says of each what is wrong and what to write, without passwords."""

    def __init__(self, lines: Iterable[str], problems: tuple[Problem, ...] = ()) -> None:
        self.lines = tuple(map(without_password, lines))
        self.problems = problems
        super().__init__("; ".join(self.lines))


@dataclass(frozen=True, kw_only=True, repr=False)
class OptionGroup:
    """Options that belong together, as fields of a subclass with a `title`.

    A subclass of several groups has all their options. Raises `ConfigError` when a value is invalid.
    """

    title: ClassVar[str] = ""
    by_position: ClassVar[tuple[str, ...]] = ()
    """Options that may be given as arguments, too."""
    _options: ClassVar[tuple[Option, ...]]

    def __post_init__(self) -> None:
        problems = tuple(_problems(self))
        if problems:
            raise ConfigError([f"{problem.field}: {problem.text}" for problem in problems], problems)

    def check(self) -> Iterator[Problem]:
        """What is wrong between options of this group; each value by itself is valid."""
        return iter(())

    def __repr__(self) -> str:
        changed = (
            f"{declared.field}={declared.text(value)!r}"
            for declared in options_of(type(self))
            if (value := getattr(self, declared.field)) != declared.default
        )
        return f"{type(self).__name__}({', '.join(changed)})"


def _unchecked(group: OptionGroup) -> Iterator[Problem]:
    return iter(())


def _problems(group: OptionGroup) -> Iterator[Problem]:
    sound = copy(group)  # with defaults instead of invalid values, so that `check` sees values of the right type
    invalid = set()
    for declared in options_of(type(group)):
        text = declared.problem(getattr(group, declared.field))
        if text:
            invalid.add(declared.field)
            object.__setattr__(sound, declared.field, declared.default)
            yield Problem(declared.field, text)
    for base in type(group).__mro__:
        for problem in vars(base).get("check", _unchecked)(sound):
            if not invalid & {problem.field, *quoted_fields(problem.text)}:
                yield problem


def options_of(group: type[OptionGroup]) -> tuple[Option, ...]:
    """Every option of a group, those of its bases first."""
    if "_options" not in vars(group):
        found = _options_by_field(group).values()
        group._options = tuple(
            dataclasses.replace(option, by_position=option.field in group.by_position) for option in found
        )
    return group._options


def _options_by_field(group: type[OptionGroup]) -> dict[str, Option]:
    found: dict[str, Option] = {}
    for base in group.__bases__:
        if issubclass(base, OptionGroup):
            found.update(_options_by_field(base))
    for field in fields(group):
        if field.name not in found:
            found[field.name] = _option(field, group)
    return found


def _camel_case(flag: str) -> str:
    """A flag as a field of a file: ``clientCAFile`` for ``client-ca-file``."""
    first, *more = flag.split("-")
    return first + "".join(word.upper() if word in _INITIALISMS else word.capitalize() for word in more)


def _option(field: dataclasses.Field[Any], group: type[OptionGroup]) -> Option:
    declared: Option | None = field.metadata.get(_METADATA)
    if declared is None:
        raise TypeError(f"{group.__name__}.{field.name} isn't an option: write {field.name} = option(…)")
    flag = declared.flag or field.name.removesuffix("_s").replace("_", "-")
    file_field = declared.file_field or _camel_case(flag)
    return dataclasses.replace(declared, field=field.name, flag=flag, file_field=file_field, group=group.title)
