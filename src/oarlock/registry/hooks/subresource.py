"""`@subresource` and `part`: a user's own subresources of an object, and fields with a subresource of their own.

`@subresource` answers requests such as ``POST …/foos/x/base64``. The names of a method's parameters say what it is
given: `name`, `parent`, `body`, `ctx`, and keyword-only parameters from the query. `body` and the answer are declared
classes of any group. An async generator answers with a stream; a method that connects is given `channels` or a `pipe`.
It runs after authentication, authorization, and the admission plugins that name it.
`part` declares that some fields are written through a subresource only, as ``status`` is.
Must not know: how it is routed. See also: `object_hooks`, which turns both into what the server calls.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast, get_origin

from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupVersionKind
from oarlock.registry.hooks.hook_caller import Argument, arguments_of
from oarlock.registry.hooks.methods import Hook, check_hook, hints_of
from oarlock.schema.definition import ResourceDefinition, Schema, Subresource, VersionDefinition
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.declaring import DuplicateError, HookError
from oarlock.schema.types.definitions import NestedTypes
from oarlock.schema.types.reflect import take_apart
from oarlock.schema.types.resources import Declared
from oarlock.schema.types.views import object_schema

MARKER = "__subresource__"

NAME = r"[a-z]([-a-z0-9]*[a-z0-9])?"
"""The names that a subresource may have."""

F = TypeVar("F", bound=Callable[..., Any])

_VERBS = {"POST": ("create",), "GET": ("get",), "PUT": ("update",)}
_PARAMETERS = ("name", "parent", "body", "ctx")
_MOST_CHANNELS = 255
_PROTOCOL = re.compile(r"[!#$%&'*+.^_`|~\w-]+(/[!#$%&'*+.^_`|~\w-]+)?", re.ASCII)  # RFC 9110 §7.8

_Parameter = Literal["", "channels", "pipe"]


@dataclass(frozen=True, slots=True)
class _Mark:
    name: str
    method: Literal["GET", "POST", "PUT"]
    versions: tuple[str, ...]
    media_type: str = ""
    """The media type of its stream; empty if it answers with an object."""
    has_method: bool = False
    """Whether `method=` was given."""
    end: _Parameter = ""
    """The parameter for the connection; empty if it doesn't connect."""
    upgrade: tuple[str, ...] = ()
    numbered: int = 0
    ports: bool = False
    """Whether the method is called for each connection to a port."""


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
            request_nested=dict(NestedTypes(self.body)) if self.body else {},
            response_nested=dict(NestedTypes(self.answer)) if self.answer else {},
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
    ports: bool = False,
) -> Callable[[F], F]:
    r"""Serve this async method as the subresource `name`, in these `versions` or in all.

        @subresource("base64")
        async def _base64(self, parent: Foo, body: Base64) -> Base64: ...

        @subresource("log")
        async def _log(self, parent: Foo, *, follow: bool = False) -> AsyncIterator[bytes]:
            yield b"a line\n"

    Called for each request, after authorization and admission. Parameters are given by name: `name`, `parent`, `body`,
    `ctx`, and keyword-only parameters from the query. None is answered with 204. POST, the default, and PUT have a
    body; with ``method="POST"`` (or PUT) and without a parameter `body` it is an action. An async generator answers GET
    with a stream of `media_type`. An exception before its first yield is an ordinary error response; a later one cuts
    the connection.

        @subresource("exec", connect=True)
        async def _exec(self, channels: Channels, *, command: list[str] = []) -> int:
            await channels.stdout.write(b"done\n")
            return 0

    With `connect` the method uses a WebSocket, through the channels of a terminal, or through `numbered` channels (at
    most 255), and returns an exit code. With `upgrade` it gets a `Pipe` in one of these protocols. With `ports` it is
    called for each connection that a client such as ``kubectl port-forward`` makes, with the number of the `port` and a
    `pipe`; the client gets what it raises. All of them answer GET and POST. An exception before the first read or
    write is an ordinary error response, but with `ports`. No deadline ends streams and connections. Raises
    DeclarationError for a name or a signature that can't be served.
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
    end = _end(subject, connect, protocols, numbered, ports)

    def mark(function: F) -> F:
        if end:
            if not inspect.iscoroutinefunction(function) or method is not None:
                raise HookError(function.__qualname__, "it can't connect", "write async def, and leave method= out")
            marked = _Mark(name, "GET", tuple(versions), end=end, upgrade=protocols, numbered=numbered, ports=ports)
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


def _end(subject: str, connect: bool, protocols: tuple[str, ...], numbered: int, ports: bool) -> _Parameter:
    """The parameter for the connection. Raises HookError for options that contradict each other."""
    if connect + bool(protocols) + ports > 1:
        raise HookError(subject, "connect=, upgrade= and ports= are different ways to connect", "choose one")
    for protocol in protocols:
        if not _PROTOCOL.fullmatch(protocol) or protocol.lower() == "websocket":
            raise HookError(
                subject, f"upgrade={protocol!r} is no protocol of yours", "such as chess/1; or connect=True"
            )
    if numbered and not (connect and 0 < numbered <= _MOST_CHANNELS):
        raise HookError(subject, f"numbered={numbered!r}", f"1 to {_MOST_CHANNELS}, with connect=True")
    return "channels" if connect else "pipe" if protocols or ports else ""


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
    if mark.ports:
        known = (*known, "port")
    for parameter in given:
        if parameter not in known:
            raise HookError(subject, f"the server has no {parameter!r} to give", "there are " + ", ".join(known))
    for needed in (mark.end, "port" if mark.ports else ""):
        if needed and needed not in given:
            raise HookError(subject, f"it connects and takes no {needed!r}", f"add the parameter {needed}")
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


VERBS = ("get", "patch", "update")

_HOOK = Hook(("new", "old", "ctx"), "plain")
_PATH = re.compile(r"\.?[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_SYSTEM = ("apiVersion", "kind", "metadata")


class DeclaredPart:
    """A part of a collection: its name, its fields as dotted paths, and the names of its hooks' methods."""

    def __init__(
        self,
        name: str,
        fields: tuple[str, ...],
        versions: tuple[str, ...],
        shared: bool,
        verbs: tuple[str, ...] = VERBS,
    ) -> None:
        self.name = name
        self.fields = fields
        self.versions = versions
        self.shared = shared
        self.verbs = verbs
        self.prepare_method = ""
        self.validate_method = ""

    def prepare(self, method: F) -> F:
        """Call this method on writes to the part, after the collection's `prepare`, to change `new` in place."""
        self.prepare_method = self._mark("prepare", self.prepare_method, method)
        return method

    def validate(self, method: F) -> F:
        """Call this method on writes to the part, after the collection's `validate`; it yields every error."""
        self.validate_method = self._mark("validate", self.validate_method, method)
        return method

    def _mark(self, hook: str, before: str, method: Any) -> str:
        name: str = getattr(method, "__name__", repr(method))
        if before:
            raise DuplicateError(f"part {self.name!r}", f"{before} is its {hook} already")
        setattr(method, MARKER, self)
        return name

    def definition(self, gvk: GroupVersionKind) -> Subresource:
        """Its entry in a version's definition."""
        return Subresource(self.name, self.verbs, gvk, fields=self.fields, shared=self.shared)


def part(
    name: str,
    *,
    fields: Sequence[str],
    versions: Sequence[str] = (),
    shared: bool = False,
    verbs: Sequence[str] = VERBS,
) -> DeclaredPart:
    """A subresource `name` that answers GET, PUT and PATCH with the whole object, and changes only `fields`.

        class Requests(StoredCollection[Request]):
            approval = part("approval", fields=["status.conditions"])

            @approval.prepare
            def _sign(self, new: Request, old: Request, ctx: Context) -> None:
                new.status.approved_by = ctx.user.name

    - A field is a path such as ``spec.finalizers``. Other fields that a client sends are reset to the live object, and
      have no new owner in managedFields.
    - Other writes, to the object or to ``/status``, don't change the fields, and a new object is created without them.
      With `shared` they may change them.
    - `versions` limits the part to some versions. The fields must exist in each. `verbs` limits it to some of its
      verbs.
    - The generation is incremented as for any other write.

    The methods marked with ``@….prepare`` and ``@….validate`` get ``new, old, ctx`` in the hub version. They run for
    writes to this part, after those of the collection. They may not wait.
    """
    subject = f"part({name!r})"
    if name in ("status", "scale") or not isinstance(name, str) or not re.fullmatch(NAME, name):
        advice = "lower-case letters, digits and -; status_subresource=True and scale= on the class serve those two"
        raise HookError(subject, f"no part can be called {name!r}", advice)
    if isinstance(fields, str) or not fields:
        raise HookError(subject, f"fields={fields!r}", 'a list of paths, such as fields=["status.conditions"]')
    paths = []
    for field in fields:
        if not isinstance(field, str) or not _PATH.fullmatch(field):
            raise HookError(subject, f"{field!r} is no path of a field", "such as spec.finalizers")
        path = field.removeprefix(".")
        if path.partition(".")[0] in _SYSTEM:
            raise HookError(subject, f"{field!r} belongs to the object itself", "name fields of spec, status …")
        paths.append(path)
    for i, path in enumerate(paths):
        others = paths[:i] + paths[i + 1 :]
        if any(f"{path}.".startswith(f"{other}.") for other in others):
            raise DuplicateError(subject, f"the field {path!r} is named twice, or inside of another")
    if isinstance(versions, str):
        raise HookError(subject, f"versions={versions!r}", f"write versions=[{versions!r}]")
    if isinstance(verbs, str) or not verbs or not set(verbs) <= set(VERBS):
        raise HookError(subject, f"verbs={verbs!r}", f"some of {list(VERBS)!r}")
    return DeclaredPart(name, tuple(paths), tuple(versions), shared, tuple(verbs))


def find_parts(cls: type, subresources: Iterable[DeclaredSubresource]) -> dict[str, DeclaredPart]:
    """The checked parts of a collection class, by attribute. Raises HookError."""
    found: dict[str, DeclaredPart] = {}
    places = {subresource.mark.name: subresource.attribute for subresource in subresources}
    for attribute in dir(cls):
        value = getattr(cls, attribute, None)
        if not isinstance(value, DeclaredPart):
            continue
        if value.name in places:
            raise DuplicateError(f"{cls.__name__}.{attribute}", f"{places[value.name]} serves {value.name!r} already")
        places[value.name] = attribute
        found[attribute] = value
        for method in filter(None, (value.prepare_method, value.validate_method)):
            function = getattr(cls, method, None)
            if function is None:
                raise HookError(f"{cls.__name__}.{attribute}", f"its method {method} is gone", "keep it")
            check_hook(cls, method, function, _HOOK)
    return found


def check_fields(subject: str, part: DeclaredPart, definition: ResourceDefinition) -> None:
    """Check that each field exists in every version of the part, and may be absent. Raises HookError."""
    for version in definition.versions:
        if part.versions and version.name not in part.versions:
            continue
        for path in part.fields:
            _check_field(subject, path, part, version)


def _check_field(subject: str, path: str, part: DeclaredPart, version: VersionDefinition) -> None:
    schema: Schema = version.schema
    *parents, last = path.split(".")
    for name in (*parents, last):
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return
        properties: Schema = schema.get("properties") or {}
        if name not in properties:
            advice = "there are " + ", ".join(properties) if properties else "it has no fields with names"
            if not part.versions:
                advice += "; versions=[…] limits a part to the versions that have its fields"
            raise HookError(subject, f"{version.name} has no field {path!r}: no {name!r}", advice)
        required = name in schema.get("required", ())
        schema = properties[name]
    if required and not part.shared:
        advice = "give it a default, or say shared=True"
        raise HookError(
            subject, f"{path!r} is required, and objects are created without what belongs to a part", advice
        )
