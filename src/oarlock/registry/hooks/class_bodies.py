"""Explains the error when the annotation ``list[str]`` follows a method called `list` in a class body.

There ``list`` is the method, and Python only says ``'function' object is not subscriptable``; the error raised here
says what to write instead. Hidden from type checkers, which report it themselves.
Must not know: what the method is for. See also: `virtual`.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Any

from oarlock.schema.types.declaring import HookError

__all__ = ["WithList"]


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
