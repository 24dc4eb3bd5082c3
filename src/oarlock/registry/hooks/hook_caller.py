"""`HookCaller`: calls one hook or method of users' code, and handles what it raises, returns and how long it takes.

An exception that refuses becomes its answer, with the object's name and kind filled in. A wrong result is reported, and
a call that blocks the event loop is logged. The hook's name is in the log, never in an answer. `arguments_of` says
which values of the query a method takes.
Must not know: what the hook is for. See also: `object_hooks`, `collection`, which call through it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import types
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin

from oarlock.meta.context import Clock, Context
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, InternalError, InvalidObject, StatusError
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.meta.options_parse import parse_int64
from oarlock.registry.conversions import FAILED
from oarlock.registry.workers import in_a_worker
from oarlock.schema.definition import QueryParameter
from oarlock.schema.types.declaring import DuplicateError, HookError
from oarlock.schema.types.folding import WrongResult
from oarlock.schema.types.projections import Open
from oarlock.schema.types.shapes import camel

_TYPES: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_TRUE, _FALSE = ("true", "1", ""), ("false", "0")


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of the method (`attribute`) and its name in the query (`published`)."""

    attribute: str
    published: QueryParameter


def arguments_of(function: Callable[..., Any], hints: Mapping[str, Any], subject: str) -> tuple[Argument, ...]:
    """The keyword-only parameters of `function`. Raises HookError for a type that a query can't have."""
    found: dict[str, Argument] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        base, many = _take_apart(hints.get(parameter.name))
        if base not in _TYPES:
            advice = "bool, int, float, str, one of them | None, or a list of one of them"
            raise HookError(subject, f"{parameter.name!r} can't be read from a query", advice)
        published = QueryParameter(
            camel(parameter.name), _TYPES[base], many, required=parameter.default is inspect.Parameter.empty
        )
        if published.name in found:
            raise DuplicateError(subject, f"two parameters are {published.name!r} in the query")
        found[published.name] = Argument(parameter.name, published)
    return tuple(found.values())


def values_of(arguments: Sequence[Argument], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The keyword arguments in a query. Missing ones get the method's defaults; unknown ones are ignored.

    If a name that isn't a list is given twice, the first value counts, as in every query of the API. Raises BadRequest.
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        published = argument.published
        texts = [value for key, value in pairs if key == published.name]
        if not texts:
            if published.required:
                raise BadRequest(f"the query parameter {published.name} is required")
            continue
        read = _READERS[published.type]
        if published.many:
            values[argument.attribute] = [read(published.name, text) for text in texts]
        else:
            values[argument.attribute] = read(published.name, texts[0])
    return values


def named_values_of(parameters: Sequence[QueryParameter], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The same by the names of parameters that no method has."""
    return values_of([Argument(parameter.name, parameter) for parameter in parameters], pairs)


def _take_apart(hint: Any) -> tuple[Any, bool]:
    """The scalar type of a hint, and whether it is a list of it."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [part for part in get_args(hint) if part is not type(None)]
        if len(rest) != 1:
            return None, False
        hint = rest[0]
    if get_origin(hint) is list:
        return get_args(hint)[0], True
    return hint, False


def _boolean(name: str, text: str) -> bool:
    word = text.lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise BadRequest(f"the query parameter {name} is {quote(text)}: it must be true or false")


def _integer(name: str, text: str) -> int:
    try:
        return parse_int64(text)
    except BadRequest as error:
        raise BadRequest(f"the query parameter {name}: {error.message}") from None


def _number(name: str, text: str) -> float:
    try:
        number = float(text) if "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    raise BadRequest(f"the query parameter {name} is {quote(text)}: it must be a number")


def _string(name: str, text: str) -> str:
    return text


_READERS: dict[str, Callable[[str, str], Any]] = {
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "string": _string,
}

log = logging.getLogger("oarlock.hooks")

T = TypeVar("T")

HELD_S = 0.1
"""A call that blocks the event loop for longer is logged, in seconds."""

QUIET_S = 60.0
"""Seconds in which a hook isn't logged again."""

_IDENTITY = ("name", "namespace", "uid")


class HookCaller:
    """A hook with the `name` it has in the log.

    In answers, `nameless` is the name of an object that has none. `about` is the kind that field errors, and by default
    the answer, are about.
    """

    __slots__ = ("_about", "_nameless", "_quiet_until", "_unlogged", "name")

    def __init__(self, name: str, nameless: str = "", about: GroupKind | None = None) -> None:
        self.name = name
        self._about = about
        self._nameless = nameless
        self._quiet_until = float("-inf")
        self._unlogged = 0

    def run(self, ctx: Context, tree: Tree | None, hook: Callable[..., T], /, *arguments: Any) -> T:
        """Call a synchronous hook; `tree` is the object it is about. Raises the answer it refuses with."""
        began = ctx.clock.monotonic()
        try:
            return hook(*arguments)
        except (FieldError, StatusError) as error:
            answer = self._answer(error, ctx, tree)
            if answer is error:
                raise
            raise answer from error
        finally:
            held_s = ctx.clock.monotonic() - began
            if held_s > HELD_S and not in_a_worker():
                self._held(ctx.clock, held_s)

    async def wait(
        self, ctx: Context, tree: Tree | None, hook: Callable[..., Awaitable[T]], /, *arguments: Any, **named: Any
    ) -> T:
        """Call an asynchronous hook and wait for it. Raises the answer it refuses with."""
        try:
            return await self.timed(ctx.clock, hook(*arguments, **named))
        except (FieldError, StatusError) as error:
            answer = self._answer(error, ctx, tree)
            if answer is error:
                raise
            raise answer from error

    @types.coroutine
    def timed(self, clock: Clock, awaitable: Awaitable[T]) -> Generator[Any, Any, T]:
        """Wait for it as ``await`` does, and measure how long each step blocks the event loop."""
        steps: Any = awaitable
        if type(awaitable) is not types.CoroutineType:
            if not inspect.isawaitable(awaitable):
                raise TypeError(f"{self.name} returned {awaitable!r:.100}, and isn't async")
            steps = _coroutine(awaitable)
        step, sent = steps.send, None
        while True:
            began = clock.monotonic()
            try:
                waits_for = step(sent)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                held_s = clock.monotonic() - began
                if held_s > HELD_S:
                    self._held(clock, held_s)
            try:
                sent = yield waits_for
                step = steps.send
            except BaseException as error:
                sent, step = error, steps.throw

    def in_place(self, returned: object) -> None:
        """Raise TypeError if a hook that changes its object in place returned something."""
        if returned is not None:
            self.not_waiting(returned)
            self.nothing(returned, "it changes the object in place")

    def nothing(self, returned: object, instead: str) -> None:
        """Raise TypeError if it returned something, which its author may expect to be used."""
        if returned is not None:
            raise TypeError(f"{self.name} returned {returned!r:.100}: {instead}")

    def not_waiting(self, returned: object) -> None:
        """Raise TypeError if it returned a coroutine: a decorated hook can't be recognised as asynchronous before."""
        if type(returned) is not types.GeneratorType and inspect.isawaitable(returned):
            if inspect.iscoroutine(returned):
                returned.close()
            raise TypeError(f"{self.name} returned something to wait for, and it may not wait: Admission may")

    def errors(self, hook: Callable[..., object], /, *arguments: Any) -> list[FieldError]:
        """Call a hook that validates: all errors it yields or returns; a FieldError it raises is the last one.

        Raises a StatusError among them, as if the hook had raised it; TypeError for anything else.
        """
        found: list[FieldError] = []
        try:
            yielded = hook(*arguments)
            if type(yielded) is not types.GeneratorType:
                yielded = self._listed(yielded)
            for error in yielded:
                if isinstance(error, StatusError):
                    raise error
                if not isinstance(error, FieldError):
                    raise TypeError(f"{self.name} yielded {error!r:.100}: it yields field errors")
                found.append(error)
        except FieldError as error:
            found.append(error)
        return found

    def _listed(self, returned: object) -> Iterable[object]:
        """What a hook returned that yields nothing itself."""
        self.not_waiting(returned)
        if returned is None:
            return ()
        if isinstance(returned, (FieldError, StatusError)):
            return (returned,)
        if isinstance(returned, str | bytes) or not isinstance(returned, Iterable):
            raise TypeError(f"{self.name} returned {returned!r:.100}: it yields field errors")
        return returned

    def result(self, opened: Open) -> Tree:
        """The tree of the object the hook changed. Raises InternalError when its class can't hold it."""
        try:
            return opened.result()
        except WrongResult as error:
            raise self.fault(str(error)) from error

    def same_object(self, before: Tree, after: Tree) -> None:
        """Raise InternalError if a hook changed the object's name, namespace or uid."""
        old, new = before["metadata"], after["metadata"]
        if old is new:
            return
        for key in _IDENTITY:
            if old.get(key) and old.get(key) != new.get(key):
                raise self.fault(f"it changed metadata.{key} from {old[key]!r:.100} to {new.get(key)!r:.100}")

    def fault(self, why: str) -> InternalError:
        """The answer for a bug in a hook; `why` is written to the log only."""
        log.error("%s made an object that can't be kept: %s", self.name, why)
        return InternalError(FAILED)

    def _held(self, clock: Clock, held_s: float) -> None:
        if not _on_a_loop():
            return
        now = clock.monotonic()
        if now < self._quiet_until:
            self._unlogged += 1
            return
        more = f" (and {self._unlogged} times since that was said last)" if self._unlogged else ""
        self._quiet_until, self._unlogged = now + QUIET_S, 0
        text = "%s held the event loop for %.0f ms: nobody else was answered meanwhile%s"
        log.warning(text, self.name, held_s * 1000, more)

    def _answer(self, error: FieldError | StatusError, ctx: Context, tree: Tree | None) -> StatusError:
        """The answer that the client gets for `error`, which may be `error` itself."""
        name = self._named(ctx, tree)
        if isinstance(error, FieldError):
            return InvalidObject(self._about or ctx.target.group_kind, name, [error])
        return error.about(ctx.target, name)

    def _named(self, ctx: Context, tree: Tree | None) -> str:
        metadata = (tree or {}).get("metadata") or {}
        found = ctx.target.name or metadata.get("name") or metadata.get("generateName")
        return found if found and isinstance(found, str) else self._nameless


async def _coroutine(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _on_a_loop() -> bool:
    """Whether this thread runs an event loop. Not so in a worker's thread, where large objects get their defaults."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
