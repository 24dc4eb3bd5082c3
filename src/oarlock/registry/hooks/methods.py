"""Checks the methods of a collection when its class is defined: names, parameters, sync or async.

A hook with a misspelt name would silently never be called; here it fails at import. Names of helper methods start with
``_``. In the body of a collection, ``list`` stays the builtin although a method has that name (`WithList`).
Must not know: what a hook does. See also: `collection`, which lists the hooks.
"""

from __future__ import annotations

import inspect
import types
from abc import ABCMeta
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from oarlock.meta.dataclass import dataclass
from oarlock.schema.types.declaring import HookError, caller_frame, did_you_mean


@dataclass(frozen=True, slots=True)
class Hook:
    """How the server calls a hook: with these parameters, and those of `optional` that the method has."""

    parameters: tuple[str, ...]
    style: Literal["plain", "async", "async generator"]
    optional: tuple[str, ...] = ()

    def call(self, name: str) -> str:
        start = "" if self.style == "plain" else "async "
        return f"{start}def {name}({', '.join(('self', *self.parameters))})"


def check_methods(cls: type, hooks: Mapping[str, Hook], wrong_guesses: Mapping[str, str], marker: str) -> None:
    """Check every public method of `cls` and of its bases in users' code.

    Methods with the attribute `marker` are skipped: who set it checks them.
    """
    for klass in cls.__mro__:
        if klass.__module__.startswith(("oarlock.registry", "oarlock.policy")) or klass is object:
            continue
        for name, value in vars(klass).items():
            function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if name.startswith("_") or not isinstance(function, types.FunctionType) or hasattr(function, marker):
                continue
            _check(cls, name, function, hooks, wrong_guesses)


def _check(cls: type, name: str, function: Any, hooks: Mapping[str, Hook], wrong_guesses: Mapping[str, str]) -> None:
    subject = f"{cls.__name__}.{name}"
    hook = hooks.get(name)
    if hook is None:
        advice = wrong_guesses.get(name) or did_you_mean(name, hooks)
        raise HookError(subject, "not a hook of this collection", f"{advice}; a helper's name starts with '_'")
    check_hook(cls, name, function, hook)


def check_hook(cls: type, name: str, function: Any, hook: Hook) -> None:
    """Check the parameters of one method, and whether it waits."""
    subject = f"{cls.__name__}.{name}"
    given = [p for p in inspect.signature(function).parameters if p != "self"]
    needed = [p for p in given if p not in hook.optional]
    if tuple(needed) != hook.parameters:
        raise HookError(
            f"{subject}(self, {', '.join(given)})",
            "has other parameters than the server gives it",
            f"write {hook.call(name)}",
        )
    _check_style(subject, name, function, hook)


def _check_style(subject: str, name: str, function: Any, hook: Hook) -> None:
    waits = inspect.iscoroutinefunction(function)
    yields = inspect.isasyncgenfunction(function)
    if hook.style == "plain" and (waits or yields):
        raise HookError(
            subject, "may not wait: it runs inside the write", f"write {hook.call(name)}; Admission may wait"
        )
    if hook.style == "async" and not waits:
        advice = f"write {hook.call(name)}"
        if hasattr(function, "__wrapped__"):
            advice += ", and async def for the wrapper of its decorator"
        raise HookError(subject, "isn't async", advice)
    if hook.style == "async generator" and not yields:
        raise HookError(subject, "isn't an async generator", f"write {hook.call(name)} with a yield in it")


def hints_of(function: Any, subject: str) -> dict[str, Any]:
    """The type hints of a method. Raises HookError if a name in them isn't defined.

    Local names of the function in which its class is defined are found too.
    """
    frame = caller_frame()
    try:
        return get_type_hints(function, localns=dict(frame.f_locals) if frame is not None else None)
    except NameError as error:
        advice = "import the classes it names outside of TYPE_CHECKING"
        raise HookError(subject, f"its hints can't be resolved: {error}", advice) from error


class _Method:
    """A method called `list` while the body of its class is executed; otherwise it behaves like the function."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)

    def __getitem__(self, item: Any) -> Any:
        advice = "write builtins.list[…], with import builtins; or from __future__ import annotations in the first line"
        raise HookError("list[…]", "below a method called list, list is that method", advice)


class _Body(dict[str, Any]):
    """The namespace in which a class body is executed."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _Method(value) if name == "list" else value)


if TYPE_CHECKING:
    WithList = type
else:

    class WithList(ABCMeta):
        """The metaclass of collections; an ABCMeta, so that a collection may also be abstract."""

        @classmethod
        def __prepare__(mcls, name: str, bases: tuple[type, ...], **keywords: Any) -> _Body:
            return _Body()

        def __new__(mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], **keywords: Any) -> Any:
            found = {key: value.function if isinstance(value, _Method) else value for key, value in body.items()}
            return super().__new__(mcls, name, bases, found, **keywords)
