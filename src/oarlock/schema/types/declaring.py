"""The errors in declarations of resources, and their messages.

Errors in a declaration are raised at import: the message names the file, the line (of the field or method, if
it is about one), the class and what to write instead. Imports no other module of this package, so all of them may
import this one. See also: `shapes`.

    DeclarationError
    ├─ KeywordError        a class keyword that doesn't exist, is missing or has an impossible value
    ├─ FieldNameError      a field whose wire name can't be made, or is taken
    ├─ HintError           a type hint that has no structural schema
    ├─ RuleError           a CEL rule that can't be run
    ├─ DuplicateError      two declarations of the same thing
    ├─ MissingConversion   a version without to_hub or from_hub
    └─ HookError           a method the server would never call, or couldn't
"""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
import re
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any, TypeVar, get_args, get_origin

_OURS = (
    "oarlock.schema",
    "oarlock.registry",
    "oarlock.controllers",
    "oarlock.policy",
    "oarlock.server",
    "oarlock.apps.api_server",
    "oarlock.apps.controlplane",
)
_MACHINERY = frozenset({"typing", "types", "abc", "msgspec", "dataclasses", "contextlib"})


class DeclarationError(TypeError):
    """A declaration that can't be served. `subject` is what is declared: a class, or ``Class.member``.

    `place` is ``file:line`` of the member if the source can be read, else empty. `instead` says what to write.
    """

    def __init__(self, subject: str, what: str, instead: str = "", place: str = "") -> None:
        self.subject = subject
        self.what = what
        self.instead = instead
        self.place = place or member_place(caller_place(), subject)
        super().__init__(subject, what, instead)

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        advice = f" ({self.instead})" if self.instead else ""
        return f"{where}{self.subject}: {self.what}{advice}"


class KeywordError(DeclarationError):
    """A class keyword that doesn't exist, is missing or has an impossible value."""


class FieldNameError(DeclarationError):
    """A field whose name on the wire can't be made from its Python name, or is taken."""


class HintError(DeclarationError):
    """A type hint that can't be expressed in a structural schema."""


class RuleError(DeclarationError):
    """A CEL rule with a syntax or type error, or with unbounded cost."""


class DuplicateError(DeclarationError):
    """The same kind, version or subresource is declared twice."""


class MissingConversion(DeclarationError):
    """A version that can't be converted to the hub, or back."""


class HookError(DeclarationError):
    """A method that isn't a hook although it looks like one, or a hook with parameters that the server doesn't pass."""


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """``did you mean 'x'?``, or the list of valid names when none is similar."""
    names = sorted(words)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if not near:
        squeezed = {name.replace("_", ""): name for name in names}
        near = [squeezed[w] for w in difflib.get_close_matches(word.replace("_", ""), squeezed, n=1, cutoff=0.7)]
    return f"did you mean {near[0]!r}?" if near else "there are " + ", ".join(names)


PYDANTIC_FIELD = "write Annotated[int, Ge(1)] = 3: constraints are markers, and what is behind the = is the default"


def is_pydantic_field(value: object) -> bool:
    """Whether it is what ``pydantic.Field`` returns, which says nothing to a `Model`."""
    return type(value).__name__ == "FieldInfo" and type(value).__module__.startswith("pydantic.")


def foreign_advice(cls: Any, instead: str) -> str:
    """What to write where a pydantic model or a dataclass can't stand; `instead` for anything else."""
    for mark, shape in (("__pydantic_core_schema__", "pydantic_shape"), ("__dataclass_fields__", "dataclass_shape")):
        if isinstance(cls, type) and mark in vars(cls):
            return (
                f"write it as a Model, or serve it whole: Foreign({shape}({cls.__name__}), group=…, version=…, kind=…)"
            )
    return instead


def refuse_unknown(cls: type, unknown: Iterable[str], base: type) -> None:
    """Refuse class keywords that ``__init_subclass__`` of `base` doesn't take. Raises KeywordError."""
    for key in unknown:
        taken = inspect.signature(base.__init_subclass__).parameters.values()
        known = [parameter.name for parameter in taken if parameter.kind is parameter.KEYWORD_ONLY]
        raise KeywordError(f"class {cls.__name__}", f"unknown keyword {key!r}", did_you_mean(key, known))


def caller_frame() -> FrameType | None:
    """The nearest caller outside of oarlock's declaration code, normally the class statement."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_OURS) and module.partition(".")[0] not in _MACHINERY:
            return frame
        frame = frame.f_back
    return None


def caller_place() -> str:
    """``file:line`` of that caller; empty when there is none."""
    frame = caller_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def member_place(place: str, subject: str) -> str:
    """``file:line`` of ``Class.member`` in the class statement that `place` is in; `place` where that can't be told."""
    named = re.match(r"(\w+)\.(\w+)", subject)
    file, _, number = place.rpartition(":")
    if named is None or not file:
        return place
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return place
    line, found = int(number), place
    for node in ast.walk(tree):
        # the innermost is walked last
        if isinstance(node, ast.ClassDef) and node.name == named[1] and node.lineno <= line <= (node.end_lineno or 0):
            found = next((f"{file}:{part.lineno}" for part in node.body if _name_of(part) == named[2]), found)
    return found


def _name_of(statement: ast.stmt) -> str:
    """The name that a statement of a class body defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return statement.name
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return next((target.id for target in targets if isinstance(target, ast.Name)), "")


def type_argument(cls: type, base: type) -> Any:
    """The argument of `cls` for the one type parameter of the generic class `base`, given directly or by a base class.

    None without an argument; a TypeVar when `cls` is generic itself.
    """
    for parent in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(parent) or parent
        if not (isinstance(origin, type) and issubclass(origin, base)):
            continue
        arguments = get_args(parent)
        if origin is base:
            return arguments[0] if arguments else None
        inner = type_argument(origin, base)
        if isinstance(inner, TypeVar):
            parameters = getattr(origin, "__parameters__", ())
            return arguments[parameters.index(inner)] if arguments and inner in parameters else None
        return inner
    return None
