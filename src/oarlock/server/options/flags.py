"""Reads flags and arguments of a command line, as Kubernetes' commands do.

``--flag=value`` or ``--flag value``; a boolean is ``--flag`` or ``--flag=false``; of a flag that is repeated the last
value counts, and all of a list; ``--`` ends flags. Flags and arguments may be mixed.
Must not know: which options there are. Source: pflag.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, field
from typing import Any, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import ConfigError, Option, OptionGroup, options_of, quoted_fields
from oarlock.server.options.types import BooleanType, OptionType, StringListType, URLType


@dataclass(frozen=True, slots=True)
class UnusedFlag:
    """`why` it has no effect is shown when it is given.

    With `only`, these values say what is so anyway: they are taken in silence, and others refused for the same `why`.
    """

    flag: str
    type: OptionType
    why: str
    only: tuple[str, ...] = ()

    def check(self, text: str) -> None:
        """Raises ValueError for a value that the other server refuses too, or that isn't so here."""
        value = self.type.parse(text)
        problem = self.type.problem(value)
        if problem:
            raise ValueError(problem)
        if self.only and self.type.text(value) not in self.only:
            raise ValueError(f"{self.why}; leave it out, or give {' or '.join(self.only)}")


def warnings_about(given: Iterable[UnusedFlag]) -> Iterator[str]:
    """A line for each reason, with the flags it is the reason for."""
    by_reason: dict[str, list[str]] = {}
    for option in given:
        if not option.only and f"--{option.flag}" not in by_reason.setdefault(option.why, []):
            by_reason[option.why].append(f"--{option.flag}")
    return (f"{', '.join(flags)}: no effect here: {why}" for why, flags in by_reason.items())


G = TypeVar("G", bound=OptionGroup)


@dataclass(slots=True)
class Layer:
    """What one source says.

    `values` are by field; `places` says where each stands (``--secure-port=70000``, ``server.yaml:3: securePort``),
    `names` how the source calls any field. `problems` are lines about what couldn't be read, `failed` the fields that
    have none for that reason; `unused` are flags without effect that were given.
    """

    names: dict[str, str]
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)
    unused: list[UnusedFlag] = field(default_factory=list)

    def refuse(self, declared: Option, place: str, why: object) -> None:
        """Note that the value at `place` can't be used."""
        self.failed.add(declared.field)
        self.problems.append(f"{place}: {why}")


def merged(group: type[G], layers: Sequence[Layer]) -> G:
    """The group with the values of the first layer that has each.

    Raises `ConfigError` with every problem, but for those of an argument that is missing, which its layer reports.
    """
    values: dict[str, Any] = {}
    for layer in reversed(layers):
        values.update(layer.values)
    failed = {name for layer in layers for name in layer.failed}
    for declared in options_of(group):
        if declared.default is MISSING and declared.field not in values:  # an argument; its layer reports it
            values[declared.field] = ""
            failed.add(declared.field)
    lines = [line for layer in layers for line in layer.problems]
    try:
        found = group(**values)
    except ConfigError as error:
        for problem in error.problems:
            if not failed & {problem.field, *quoted_fields(problem.text)}:
                lines.append(_reported(problem.field, problem.text, layers))
        raise ConfigError(lines) from None
    if lines:
        raise ConfigError(lines)
    return found


def _reported(name: str, text: str, layers: Sequence[Layer]) -> str:
    for quoted in quoted_fields(text):
        layer = next((layer for layer in layers if quoted in layer.values), layers[0])
        text = text.replace(f"`{quoted}`", layer.names.get(quoted, quoted))
    place = next((layer.places[name] for layer in layers if name in layer.places), layers[0].names[name])
    return f"{place}: {text}"


def nearest(word: str, words: Iterable[str]) -> list[str]:
    """Those of `words` that are most like a misspelled one, the best first."""
    found = difflib.get_close_matches(word, list(words), n=3, cutoff=0.6)
    ratios = [difflib.SequenceMatcher(None, word, near).ratio() for near in found]
    return [near for near, ratio in zip(found, ratios, strict=True) if ratio >= ratios[0] - 0.1]


def flag_of(declared: Option) -> str:
    """An option as it is typed: ``--secure-port``; what stands for an argument."""
    return declared.flag if declared.is_argument else f"--{declared.flag}"


def read_flags(
    options: Sequence[Option],
    words: Sequence[str],
    unused: Sequence[UnusedFlag] = (),
    owners: Callable[[str], Sequence[str]] | None = None,
    stray: str = "",
) -> tuple[Layer, list[str]]:
    """The values in a command line, and what is wrong with its form: unknown flags, missing or unexpected arguments.

    Those of `unused` that it has are the layer's. `owners` names the commands that have a flag which this one hasn't,
    `stray` what an argument that nothing takes was probably meant for.
    """
    reader = _FlagReader(options, words, unused, owners or (lambda _: ()))
    reader.stray = stray
    reader.read()
    return reader.layer, reader.mistakes


class _FlagReader:
    def __init__(
        self,
        options: Sequence[Option],
        words: Sequence[str],
        unused: Sequence[UnusedFlag],
        owners: Callable[[str], Sequence[str]],
    ) -> None:
        self._owners = owners
        self.layer = Layer(names={option.field: flag_of(option) for option in options})
        self.mistakes: list[str] = []
        self._flags = {f"--{option.flag}": option for option in options if not option.is_argument}
        self._flags.update({f"--{option.also}": option for option in options if option.also})
        self._unused = {f"--{option.flag}": option for option in unused if f"--{option.flag}" not in self._flags}
        self._short = {f"-{option.short}": option for option in options if option.short}
        self._arguments = [option for option in options if option.is_argument] + [
            option for option in options if option.by_position
        ]
        self._urls = [flag for flag, option in self._flags.items() if isinstance(option.type, URLType)]
        self._words = list(words)
        self._after_unknown: list[str] = []
        self.stray = ""

    def read(self) -> None:
        arguments: list[str] = []
        while self._words:
            word = self._words.pop(0)
            if word == "--":
                arguments += self._words
                break
            if word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and word != "-":
                self._letter(word)
            else:
                arguments.append(word)
        by_flag = self.layer.values.keys() | self.layer.failed
        expected = [argument for argument in self._arguments if argument.field not in by_flag]
        for declared, text in zip(expected, arguments, strict=False):
            self._take(declared, text, declared.type.unit if declared.by_position else declared.flag)
        for declared in expected[len(arguments) :]:
            if declared.required:
                self.mistakes.append(f"Missing argument '{declared.flag}'")
        for text in arguments[len(expected) :]:
            if text in self._after_unknown:
                continue  # probably the value of that flag, which is reported already
            self.mistakes.append(f"Unexpected argument '{text}'{self._meant_by(text)}")

    def _meant_by(self, text: str) -> str:
        if text in ("true", "false"):
            return ": a boolean flag takes its value after ="
        if ":/" in text and self._urls:
            return f" (write {self._urls[0]}={text})"
        return f" ({self.stray})" if self.stray else ""

    def _long(self, word: str) -> None:
        name, equals, text = word.partition("=")
        declared = self._flags.get(name)
        if declared is None and name in self._unused:
            self._without_effect(self._unused[name], text if equals else None)
        elif declared is None:
            near = nearest(name, self._flags)
            owners = self._owners(name)
            hint = f" (did you mean {' or '.join(near)}?)" if near else ""
            hint = f" (it is one of {', '.join(owners)})" if owners else hint
            self.mistakes.append(f"No such flag: {name}{hint}")
            if not equals:
                self._after_unknown += self._words[:1]
        else:
            self._value(declared, name, text if equals else None)

    def _without_effect(self, flag: UnusedFlag, text: str | None) -> None:
        text = self._text(flag.type, f"--{flag.flag}", text)
        if text is None:
            return
        try:
            flag.check(text)
        except ValueError as error:
            self.layer.problems.append(f"--{flag.flag}={text}: {error}")
        else:
            self.layer.unused.append(flag)

    def _letter(self, word: str) -> None:
        declared = self._short.get(word[:2])
        if declared is None:
            self.mistakes.append(f"No such flag: {word}")
            return
        rest = word[2:].removeprefix("=")
        self._value(declared, word[:2], rest if len(word) > 2 else None)

    def _value(self, declared: Option, name: str, text: str | None) -> None:
        text = self._text(declared.type, name, text)
        if text is not None:
            self._take(declared, text, f"{name}={text}")

    def _text(self, kind: OptionType, name: str, text: str | None) -> str | None:
        """The value of a flag; None, and a mistake, if there is none."""
        if text is None and isinstance(kind, BooleanType):
            return "true"
        if text is None and not self._words:
            self.mistakes.append(f"{name} needs a value: {kind.unit}")
            return None
        return self._words.pop(0) if text is None else text

    def _take(self, declared: Option, text: str, place: str) -> None:
        layer, name = self.layer, declared.field
        try:
            value: Any = declared.type.parse(text)
        except ValueError as error:
            layer.refuse(declared, place, error)
            return
        if isinstance(declared.type, StringListType):
            value = tuple(dict.fromkeys((*layer.values.get(name, ()), *value)))
        layer.values[name] = value
        layer.places[name] = place
