"""Class bodies in which a method is called `list`: an annotation ``list[str]`` below it would mean that method.

Python says of that ``'function' object is not subscriptable``; here it says what to write. Hidden from type checkers,
which see it themselves. Must not know: what the method is for. Next: `virtual`.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Any

from oarlock.schema.declaring import HookError

__all__ = ["WithList"]


class _Method:
    """A method called `list`, while the body of its class runs; in all else it is the function."""

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
    """The names of a class body."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _Method(value) if name == "list" else value)


if TYPE_CHECKING:
    WithList = type
else:

    class WithList(ABCMeta):
        """The metaclass of a collection; an ABCMeta, so that one may be abstract as well."""

        @classmethod
        def __prepare__(mcls, name: str, bases: tuple[type, ...], **keywords: Any) -> _Body:
            return _Body()

        def __new__(mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], **keywords: Any) -> Any:
            found = {key: value.function if isinstance(value, _Method) else value for key, value in body.items()}
            return super().__new__(mcls, name, bases, found, **keywords)
