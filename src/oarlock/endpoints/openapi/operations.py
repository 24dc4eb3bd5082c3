"""The operations of a resource, independent of the OpenAPI version.

Must not know: how a document looks. Source: API conventions "verbs on resources"; parameters as in ``meta/v1`` options.
See also: `documents_v3` and `documents_v2`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.openapi.kinds import SCALE, article, camel, definition_name, group_tag, sub_schema_name, title
from oarlock.endpoints.respond import ANY_OBJECT, CBOR, CBOR_SEQ, NAMED, YAML
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupVersionKind
from oarlock.registry.served import Served
from oarlock.schema.definition import Subresource
from oarlock.schema.released.published import PublishedTypes, parameter_texts

PRODUCES: tuple[str, ...] = NAMED
"""The media types of discovery."""

NUMBERED = (*NAMED, CBOR)
"""The media types of objects whose fields have protobuf numbers."""

PatchTypes = Callable[[Served], Sequence[str]]
"""Returns the patch types of a resource."""

Answers = tuple[tuple[str, tuple[str, ...]], ...]
UNAUTHORIZED: Answers = (("401", ()),)
FAILURES: Answers = (*UNAUTHORIZED, ("default", ("Status",)))
"""Every request for a resource may fail, with a Status."""


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str
    description: str
    where: str = "query"
    many: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    `body` names the schema of the request body; `answers` has the schemas of each status code, the usual one first.
    Names are short, as in `shared_types`, or definition names. ``default`` is any other status code.
    """

    method: str
    id: str
    tag: str
    description: str
    answers: Answers
    action: str = ""
    gvk: GroupVersionKind | None = None
    parameters: tuple[Parameter, ...] = ()
    body: str = ""
    body_required: bool = True
    consumes: tuple[str, ...] = ANY_OBJECT
    produces: tuple[str, ...] = ANY_OBJECT
    stream: str = ""
    """The media type of a streamed answer; empty for an object."""


@dataclass(frozen=True, slots=True)
class _Form:
    """The schemas of a body and of an answer, and the media types of each."""

    body: str
    answer: str
    consumes: tuple[str, ...]
    produces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathOperations:
    path: str
    parameters: tuple[Parameter, ...] = ()
    operations: list[Operation] = field(default_factory=list)


def _described(names: str, kind: str, of: str = "") -> tuple[Parameter, ...]:
    """Query parameters of this JSON type, described as Kubernetes does."""
    texts = parameter_texts()
    return tuple(Parameter(name, kind, texts.get(f"{of} {name}") or texts[name]) for name in names.split())


def _sorted(*parameters: Parameter) -> tuple[Parameter, ...]:
    return tuple(sorted(parameters, key=lambda parameter: parameter.name))


NAMESPACE = Parameter("namespace", "string", parameter_texts()["namespace"], "path")
(PRETTY,) = _described("pretty", "string")

_SELECTION = (
    *_described("continue fieldSelector labelSelector resourceVersion resourceVersionMatch", "string"),
    *_described("limit timeoutSeconds", "integer"),
    *_described("sendInitialEvents", "boolean"),
)
_LIST = _sorted(*_SELECTION, *_described("allowWatchBookmarks watch", "boolean"))
_DRY_RUN, _VALIDATION = _described("dryRun fieldValidation", "string")
PROXY_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_PATH_TO_ASK = Parameter("path", "string", "the path to ask for, with its query")
_PATH_BEHIND = Parameter("path", "string", "the path to ask for", "path", required=True)
_WRITE = _sorted(_DRY_RUN, _VALIDATION, *_described("fieldManager", "string"))
_PATCH = _sorted(
    _DRY_RUN, _VALIDATION, *_described("fieldManager", "string", "patch"), *_described("force", "boolean", "patch")
)
_DELETE = _sorted(
    _DRY_RUN,
    *_described("gracePeriodSeconds", "integer"),
    *_described("ignoreStoreReadErrorWithClusterBreakingPotential orphanDependents", "boolean"),
    *_described("propagationPolicy", "string"),
)
_DELETE_COLLECTION = _sorted(*_DELETE, *_SELECTION)
_DELETE_BODY: Mapping[str, Any] = {"body": "DeleteOptions", "body_required": False, "consumes": NUMBERED}
SHARED_PARAMETERS = frozenset((NAMESPACE, PRETTY, *_LIST, *_WRITE, *_PATCH, *_DELETE)) - {_DRY_RUN, _VALIDATION}
"""Those of many operations, which version 2 writes once."""


def _name_of(kind: str) -> Parameter:
    """The name of an object, in the path."""
    return Parameter("name", "string", f"name of the {kind}", "path")


def root_of(group: str, version: str = "") -> str:
    """``/apis/{group}/{version}``, or ``/api/{version}`` for the core group."""
    root = f"/apis/{group}" if group else "/api"
    return f"{root}/{version}" if version else root


class _Writer:
    """Makes the operations of one entry."""

    def __init__(self, entry: CatalogEntry, patch_types: PatchTypes, types: PublishedTypes | None) -> None:
        self.entry = entry
        self.types = types
        self.patch_types = tuple(patch_types(entry.served))
        self.kind = entry.gvk.kind
        self.tag = f"{group_tag(entry.gvk.group)}_{entry.gvk.version}"
        self.place = camel(entry.gvk.group) + title(entry.gvk.version)
        self.scope = "Namespaced" if entry.namespaced else ""
        self.object = definition_name(entry.gvk)
        self.media = ANY_OBJECT if entry.protobuf is None else NUMBERED
        self.list = definition_name(GroupVersionKind(entry.gvk.group, entry.gvk.version, entry.list_kind))

    def id(self, verb: str, *, middle: str = "", tail: str = "") -> str:
        return f"{verb}{self.place}{middle}{self.scope}{self.kind}{tail}"

    def operation(self, method: str, identity: str, text: str, answers: Answers, **rest: Any) -> Operation:
        """An operation on the entry; `rest` are fields of `Operation`. Without others, the action is the method."""
        about = {"action": method, "gvk": self.entry.gvk, **rest}
        return Operation(method, identity, self.tag, text, (*answers, *FAILURES), **about)

    def listing(self, operation_id: str) -> Operation:
        text = f"list {'or watch ' if self.entry.definition.typed else ''}objects of kind {self.kind}"
        produces = (*self.media, *_streams(self.media))
        found: Answers = (("200", (self.list,)),)
        return self.operation("get", operation_id, text, found, action="list", parameters=_LIST, produces=produces)

    def collection(self) -> Iterable[Operation]:
        verbs = self.entry.verbs
        if "list" in verbs:
            yield self.listing(self.id("list"))
        if "create" in verbs:
            yield self.operation(
                "post",
                self.id("create"),
                f"create {article(self.kind)}",
                tuple((code, (self.object,)) for code in ("200", "201", "202")),
                parameters=_WRITE,
                body=self.object,
                consumes=self.media,
                produces=self.media,
            )
        if "deletecollection" in verbs:
            yield self.operation(
                "delete",
                self.id("delete", middle="Collection"),
                f"delete collection of {self.kind}",
                (("200", (self.list,)),),
                action="deletecollection",
                parameters=_DELETE_COLLECTION,
                produces=self.media,
                **_DELETE_BODY,
            )

    def item(self) -> Iterable[Operation]:
        verbs = set(self.entry.verbs)
        whole = _Form(self.object, self.object, self.media, self.media)
        yield from self.shared(verbs, "", self.entry.gvk, whole)
        if "delete" in verbs:
            gone = () if self.entry.definition.delete_returns == "object" else ("Status",)
            answer = (*gone, self.object)  # the object, while it waits for its finalizers
            answers = (("200", answer), ("202", answer))
            identity, text = self.id("delete"), f"delete {article(self.kind)}"
            yield self.operation(
                "delete", identity, text, answers, parameters=_DELETE, produces=self.media, **_DELETE_BODY
            )

    def shared(self, verbs: set[str], sub: str, gvk: GroupVersionKind, form: _Form) -> Iterable[Operation]:
        """Get, update and patch, for the object (`sub` is "") and its subresources."""
        tail, given = _tail(sub), (form.answer,) if form.answer else ()
        what = f"{sub} of the specified {self.kind}" if sub else f"the specified {self.kind}"
        about: dict[str, Any] = {"gvk": gvk, "produces": form.produces}
        if "get" in verbs:
            yield self.operation("get", self.id("read", tail=tail), f"read {what}", (("200", given),), **about)
        answers: Answers = (("200", given), ("201", given)) if given else (("204", given),)  # 201: created
        if "update" in verbs:
            body = {"parameters": _WRITE, "body": form.body, "consumes": form.consumes}
            yield self.operation("put", self.id("replace", tail=tail), f"replace {what}", answers, **about, **body)
        if "patch" in verbs and self.patch_types:
            body = {"parameters": _PATCH, "body": "Patch", "consumes": self.patch_types}
            text = f"partially update {what}"
            yield self.operation("patch", self.id("patch", tail=tail), text, answers, **about, **body)

    def subresource(self, sub: Subresource) -> Iterable[Operation]:
        own = tuple(Parameter(p.name, p.type, "", "query", p.many, p.required) for p in sub.parameters)
        if sub.connects:
            yield from self.connecting(sub, own, ("get", "post"))
            return
        if sub.proxies:
            yield from self.connecting(sub, (*own, _PATH_TO_ASK), PROXY_METHODS)
            return
        form = self.form(sub)
        for operation in self.shared(set(sub.verbs), sub.name, sub.kind, form):
            yield replace(operation, parameters=(*operation.parameters, *own), stream=sub.produces)
        if "create" in sub.verbs:
            given = (form.answer,) if form.answer else ()
            yield self.operation(
                "post",
                self.id("create", tail=_tail(sub.name)),
                f"create {sub.name} of {article(self.kind)}",
                (("200", given), ("201", given)) if given else (("204", given),),
                gvk=sub.kind,
                parameters=(*_WRITE, *own),
                body=form.body,
                consumes=form.consumes,
                produces=form.produces,
            )

    def connecting(
        self, sub: Subresource, own: tuple[Parameter, ...], methods: Iterable[str], tail: str = ""
    ) -> Iterable[Operation]:
        """A subresource that takes over the connection, or passes requests on; OpenAPI can't describe an upgrade."""
        about: dict[str, Any] = {"gvk": sub.kind, "parameters": own, "consumes": ("*/*",), "stream": "*/*"}
        for method in methods:
            identity = self.id("connect", middle=title(method), tail=_tail(sub.name) + tail)
            text = f"connect {method.upper()} requests to {sub.name} of {self.kind}"
            yield self.operation(method, identity, text, (("200", ()),), action="connect", **about)

    def form(self, sub: Subresource) -> _Form:
        """The body and answer of a subresource."""
        entry = self.entry
        if sub.name == "scale" and entry.version.scale is not None:
            return _Form(SCALE, SCALE, NUMBERED, NUMBERED)
        if sub.name == "status" or (sub.fields and sub.kind == entry.gvk):
            return _Form(self.object, self.object, self.media, self.media)
        if sub.kind == entry.gvk and not sub.request_schema and not sub.response_schema and sub.produces:
            return _Form(self.object, "" if sub.produces else self.object, ANY_OBJECT, ANY_OBJECT)
        request, response = (ANY_OBJECT if message is None else NUMBERED for message in entry.sub_messages(sub.name))
        body = sub_schema_name(entry, sub, "Request", self.types) if sub.request_schema else ""
        published = body == definition_name(sub.kind)  # Kubernetes gives the body's type for the answer too
        answers = (bool(sub.response_schema) or published) and not sub.produces
        return _Form(body, sub_schema_name(entry, sub, "Response", self.types) if answers else "", request, response)


def _tail(subresource: str) -> str:
    """The end of an operation's id, for a subresource."""
    return "".join(map(title, subresource.split("-")))


def _streams(media: Iterable[str]) -> Iterable[str]:
    return (
        CBOR_SEQ if media_type == CBOR else f"{media_type};stream=watch" for media_type in media if media_type != YAML
    )


def resource_paths(entry: CatalogEntry, patch_types: PatchTypes, types: PublishedTypes | None) -> list[PathOperations]:
    """Every path of a resource with its operations.

    `patch_types` are the supported patches, `types` those of Kubernetes' own kinds.
    """
    writer = _Writer(entry, patch_types, types)
    name = _name_of(entry.gvk.kind)
    plural = entry.definition.names.plural
    root = root_of(entry.gvk.group, entry.gvk.version)
    paths: list[PathOperations] = []
    scoped: tuple[Parameter, ...] = ()
    if entry.namespaced:
        scoped = (NAMESPACE,)
        if "list" in entry.verbs:
            everywhere = writer.listing(f"list{writer.place}{writer.kind}ForAllNamespaces")
            paths.append(PathOperations(f"{root}/{plural}", (PRETTY,), [everywhere]))
        root += "/namespaces/{namespace}"
    paths.append(PathOperations(f"{root}/{plural}", (*scoped, PRETTY), list(writer.collection())))
    item = f"{root}/{plural}/{{name}}"
    paths.append(PathOperations(item, (name, *scoped, PRETTY), list(writer.item())))
    for sub in entry.subresources.values():
        about = (_name_of(sub.kind.kind), *scoped, PRETTY)
        paths.append(PathOperations(f"{item}/{sub.name}", about, list(writer.subresource(sub))))
        if sub.proxies:
            operations = list(writer.connecting(sub, (), PROXY_METHODS, "WithPath"))
            paths.append(PathOperations(f"{item}/{sub.name}/{{path}}", (*about, _PATH_BEHIND), operations))
    return [path for path in paths if path.operations]
