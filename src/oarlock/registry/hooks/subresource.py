"""`@subresource`: a user's own subresource of an object, such as ``POST …/foos/x/base64``.

The names of a method's parameters say what it is given: `name`, `parent`, `body`, `ctx`, and keyword-only parameters
from the query (`parameters`). `body` and the answer are declared classes of any group. An async generator answers with
a stream; a method that connects is given `channels` or a `pipe`. It runs after authentication, authorization, and the
admission plugins that name it.
Must not know: how it is routed. See also: `subresource_hooks`, which turns it into what the server calls.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast, get_origin

from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupVersionKind
from oarlock.registry.hooks.methods import hints_of
from oarlock.registry.hooks.parameters import Argument, arguments_of
from oarlock.schema.definition import Subresource
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.declaring import DuplicateError, HookError
from oarlock.schema.types.object_schema import object_schema
from oarlock.schema.types.reflect import take_apart
from oarlock.schema.types.resources import Declared

__all__ = ["MARKER", "NAME", "DeclaredSubresource", "find_subresources", "subresource"]

MARKER = "__subresource__"

NAME = r"[a-z]([-a-z0-9]*[a-z0-9])?"
"""The names that a subresource may have."""

F = TypeVar("F", bound=Callable[..., Any])

_VERBS = {"POST": ("create",), "GET": ("get",), "PUT": ("update",)}
_PARAMETERS = ("name", "parent", "body", "ctx")
_MOST_CHANNELS = 255
_PROTOCOL = re.compile(r"[!#$%&'*+.^_`|~\w-]+(/[!#$%&'*+.^_`|~\w-]+)?", re.ASCII)  # RFC 9110 §7.8


@dataclass(frozen=True, slots=True)
class _Mark:
    name: str
    method: Literal["GET", "POST", "PUT"]
    versions: tuple[str, ...]
    media_type: str = ""
    """The media type of its stream; empty if it answers with an object."""
    has_method: bool = False
    """Whether `method=` was given."""
    end: Literal["", "channels", "pipe"] = ""
    """The parameter for the connection; empty if it doesn't connect."""
    upgrade: tuple[str, ...] = ()
    numbered: int = 0


@dataclass(frozen=True, slots=True)
class DeclaredSubresource:
    """A subresource of a collection: the method's name, its parameters, and the classes of body and answer.

    `parent` is the class of the method's `parent`, or its `Foreign`; None for a tree in the request version.
    """

    mark: _Mark
    attribute: str
    parameters: tuple[str, ...]
    body: Any
    answer: Any
    parent: Any
    arguments: tuple[Argument, ...] = ()

    def definition(self, parent: GroupVersionKind) -> Subresource:
        """Its entry in discovery and OpenAPI; without a kind of its own it has its `parent`'s."""
        shown = self.body or self.answer
        return Subresource(
            name=self.mark.name,
            verbs=("create", "get") if self.mark.end else _VERBS[self.mark.method],
            kind=shown.__declared__.gvk if shown is not None else parent,
            request_schema=object_schema(self.body) if self.body else {},
            response_schema=object_schema(self.answer) if self.answer else {},
            parameters=tuple(argument.published for argument in self.arguments),
            produces=self.mark.media_type,
            connects=bool(self.mark.end),
        )


def subresource(
    name: str,
    *,
    method: Literal["GET", "POST", "PUT"] | None = None,
    versions: Sequence[str] = (),
    media_type: str = "text/plain",
    connect: bool = False,
    upgrade: str | Sequence[str] = (),
    numbered: int = 0,
) -> Callable[[F], F]:
    """Serve this async method as the subresource `name`, in these `versions` or in all.

        @subresource("base64")
        async def _base64(self, parent: Foo, body: Base64) -> Base64: ...

        @subresource("log")
        async def _log(self, parent: Foo, *, follow: bool = False) -> AsyncIterator[bytes]:
            yield b"a line\n"

    POST, the default, and PUT have a body; with ``method="POST"`` (or PUT) and no parameter `body` it is an action
    without one. Returning None answers 204 without content. An async generator answers
    GET with what it yields, as `media_type`, for as long as it runs: no deadline ends it. What it raises before its
    first yield is an ordinary error; later, the answer is cut. Keyword-only parameters come from the query.

        @subresource("exec", connect=True)
        async def _exec(self, channels: Channels, *, command: list[str] = []) -> int:
            await channels.stdout.write(b"done\n")
            return 0

    With `connect` the method talks over a WebSocket, through the channels of a terminal or `numbered` ones of its own
    (at most 255); with `upgrade` it is handed a `Pipe` of the protocols named there. Either answers GET and POST, no
    deadline ends it, and what it raises before it first reads or writes is an ordinary error. It returns an exit code.
    """

    subject = f"@subresource({name!r})"
    if name in ("status", "scale") or not re.fullmatch(NAME, name):
        advice = (
            "status_subresource=True and scale= on the class serve those two; else lower-case letters, digits and -"
        )
        raise HookError(subject, f"no subresource can be called {name!r}", advice)
    if method is not None and method not in _VERBS:
        raise HookError(subject, f"no subresource is served with {method!r}", "GET, POST or PUT")
    if not re.fullmatch(r"[\w.+-]+/[\w.+-]+(;[ -~]*)?", media_type):
        raise HookError(subject, f"{media_type!r} is no media type", "such as text/plain")
    protocols = (upgrade,) if isinstance(upgrade, str) else tuple(upgrade)
    end = _end(subject, connect, protocols, numbered)

    def mark(function: F) -> F:
        if end:
            if not inspect.iscoroutinefunction(function) or method is not None:
                raise HookError(function.__qualname__, "it can't connect", "write async def, and leave method= out")
            marked = _Mark(name, "GET", tuple(versions), end=end, upgrade=protocols, numbered=numbered)
            setattr(function, MARKER, marked)
            return function
        if inspect.isasyncgenfunction(function):
            if method not in (None, "GET"):
                raise HookError(function.__qualname__, f"a stream can't answer {method}", "leave method out")
            setattr(function, MARKER, _Mark(name, "GET", tuple(versions), media_type))
            return function
        if not inspect.iscoroutinefunction(function):
            raise HookError(function.__qualname__, "a subresource is async", "write async def")
        setattr(function, MARKER, _Mark(name, method or "POST", tuple(versions), has_method=method is not None))
        return function

    return mark


def _end(subject: str, connect: bool, protocols: tuple[str, ...], numbered: int) -> Literal["", "channels", "pipe"]:
    """The parameter for the connection. Raises HookError for options that contradict each other."""
    if connect and protocols:
        raise HookError(subject, "connect= and upgrade= are two ways to connect", "leave one out")
    for protocol in protocols:
        if not _PROTOCOL.fullmatch(protocol) or protocol.lower() == "websocket":
            raise HookError(
                subject, f"upgrade={protocol!r} is no protocol of yours", "such as chess/1; or connect=True"
            )
    if numbered and not (connect and 0 < numbered <= _MOST_CHANNELS):
        raise HookError(subject, f"numbered={numbered!r}", f"1 to {_MOST_CHANNELS}, with connect=True")
    return "channels" if connect else "pipe" if protocols else ""


def find_subresources(cls: type) -> tuple[DeclaredSubresource, ...]:
    """The checked subresources of a collection class. Raises HookError."""
    found: dict[str, DeclaredSubresource] = {}
    for attribute in dir(cls):
        function = getattr(cls, attribute, None)
        mark = getattr(function, MARKER, None)
        if not isinstance(mark, _Mark):
            continue
        if mark.name in found:
            raise DuplicateError(
                f"{cls.__name__}.{attribute}", f"{found[mark.name].attribute} serves {mark.name!r} already"
            )
        found[mark.name] = _found(cls, attribute, function, mark)
    return tuple(found.values())


def _found(cls: type, attribute: str, function: Any, mark: _Mark) -> DeclaredSubresource:
    subject = f"{cls.__name__}.{attribute}"
    signature = inspect.signature(function).parameters.values()
    given = tuple(p.name for p in signature if p.name != "self" and p.kind is not p.KEYWORD_ONLY)
    known = (*(p for p in _PARAMETERS if p != "body"), mark.end) if mark.end else _PARAMETERS
    for parameter in given:
        if parameter not in known:
            raise HookError(subject, f"the server has no {parameter!r} to give", "there are " + ", ".join(known))
    if mark.end and mark.end not in given:
        raise HookError(subject, f"it connects and takes no {mark.end!r}", f"add the parameter {mark.end}")
    if "body" in given and mark.method == "GET":
        raise HookError(subject, "GET has no body", 'leave the parameter body out, or say method="POST"')
    if "body" not in given and mark.method != "GET" and not mark.has_method:
        advice = (
            'add the parameter body; or say method="POST" for an action without one, method="GET" for what only reads'
        )
        raise HookError(subject, "it takes no body", advice)
    hints = hints_of(function, subject)
    arguments = arguments_of(function, hints, subject)
    parent = _parent(subject, hints.get("parent"), getattr(cls, "__resource__", None))
    if mark.media_type or mark.end:
        return DeclaredSubresource(mark, attribute, given, None, None, parent, arguments)
    body = _declared(subject, "body", hints.get("body")) if "body" in given else None
    answer = _declared(subject, "answer", take_apart(hints.get("return", type(None))).base)
    if mark.method == "GET" and answer is None:
        raise HookError(subject, "a GET has an answer", 'return a Resource, or say method="POST" for an action')
    return DeclaredSubresource(mark, attribute, given, body, answer, parent, arguments)


def _parent(subject: str, hint: Any, resource: Any) -> Any:
    """What a method's `parent` is a view of: a class, or the collection's `Foreign`; None for a tree."""
    if _is_declared(hint):
        return hint
    if hint in (None, Any, object, dict) or get_origin(hint) in (dict, Mapping):
        return None
    if isinstance(resource, Foreign):
        return resource
    name = getattr(hint, "__name__", repr(hint))
    advice = "write the Resource or Spoke class, or dict[str, Any] for a tree in the request's version"
    raise HookError(subject, f"its parent can't be seen as {name}, which isn't a Resource class", advice)


def _is_declared(cls: Any) -> bool:
    return isinstance(cls, type) and isinstance(vars(cls).get("__declared__"), Declared)


def _declared(subject: str, what: str, cls: Any) -> Any:
    if cls is type(None):
        return None
    if not _is_declared(cls):
        name = getattr(cls, "__name__", repr(cls))
        raise HookError(subject, f"the {what} is {name}, which has no kind", "a class X(Resource, group=…, version=…)")
    return cast(Any, cls)
