"""What expressions can name: ``object``, ``oldObject``, ``request``, ``params``, and so on.

Objects have no types here: an expression may be about several kinds. See also: `compiling`.
Source: k8s.io/apiserver ``admission/plugin/cel``.
"""

from __future__ import annotations

from collections.abc import Mapping

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel import types
from oarlock.schema.cel.declared import USER, Decl, declare
from oarlock.schema.cel.expression import DeclaredVariable
from oarlock.schema.cel.types import CelType
from oarlock.schema.structural.nodes import Node

AUTHORIZER = "authorizer"
COMPOSED = "variables"
AUTHORIZER_OF_REQUEST = "authorizer.requestResource"

_PLAIN = frozenset(("null", "bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"))

NAMES = (
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "params",
    AUTHORIZER,
    AUTHORIZER_OF_REQUEST,
    COMPOSED,
)
"""In the order in which programs take their values; each takes those that it has."""

_TEXT = Node(type="string")
_NUMBER = Node(type="integer")
_YES = Node(type="boolean")
_TEXTS = Node(type="array", items=_TEXT)


def _object(**fields: Node) -> Node:
    return Node(type="object", properties=fields)


def _named(**fields: str) -> Node:
    return Node(type="object", properties=dict.fromkeys(fields.values(), _TEXT))


_KIND = _named(group="group", version="version", kind="kind")
_RESOURCE = _named(group="group", version="version", resource="resource")
_REQUEST = _object(
    uid=_TEXT,
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=USER,
    dryRun=_YES,
)
_NAMESPACE = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=Node(type="object", additional=_TEXT),
        annotations=Node(type="object", additional=_TEXT),
        UID=_TEXT,
        creationTimestamp=Node(type="string", format="date-time"),
        deletionGracePeriodSeconds=_NUMBER,
        deletionTimestamp=Node(type="string", format="date-time"),
        generation=_NUMBER,
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(phase=_TEXT),
)


def _declared(node: Node, name: str) -> Decl:
    decl = declare(node, path="")
    assert decl is not None
    decl.type.name = name
    return decl


def _request() -> Decl:
    decl = _declared(_REQUEST, "kubernetes.AdmissionRequest")
    decl.fields["options"] = ("options", Decl(types.DYN, Node()))
    return decl


_ANY = DeclaredVariable(types.DYN)
_BASE: dict[str, DeclaredVariable] = {"object": _ANY, "oldObject": _ANY}
_request_decl = _request()
_BASE["request"] = DeclaredVariable(_request_decl.type, _request_decl)
_namespace_decl = _declared(_NAMESPACE, "kubernetes.Namespace")
_BASE["namespaceObject"] = DeclaredVariable(_namespace_decl.type, _namespace_decl)
_ASKS = {
    AUTHORIZER: DeclaredVariable(types.opaque("kubernetes.authorization.Authorizer")),
    AUTHORIZER_OF_REQUEST: DeclaredVariable(types.opaque("kubernetes.authorization.ResourceCheck")),
}


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may name besides the objects and the request."""

    params: bool = False
    authorizer: bool = True


def variables_of(scope: Scope, objects: Mapping[str, DeclaredVariable] | None = None) -> dict[str, DeclaredVariable]:
    """The variables of an expression. `objects` are those whose types are known, to check an expression by them."""
    made = {**_BASE, **(objects or {})}
    if scope.params:
        made.setdefault("params", _ANY)
    if scope.authorizer:
        made.update(_ASKS)
    return made


def composed_type(kind: CelType) -> CelType:
    """The type of a composed variable whose expression has the type `kind`: objects are ``dyn``, as in Kubernetes.

    So are optional values, and what asks about permissions.
    """
    if kind.kind == "list":
        return types.list_of(composed_type(kind.params[0]))
    if kind.kind == "map":
        return types.map_of(*map(composed_type, kind.params))
    return kind if kind.kind in _PLAIN else types.DYN


def with_variables(known: Mapping[str, DeclaredVariable], own: Mapping[str, CelType]) -> dict[str, DeclaredVariable]:
    """The same, with the variables that a policy has defined so far, by name."""
    decl = Decl(CelType("object", (), "kubernetes.variables"), Node(type="object"), computed=True)
    decl.type.node = decl
    decl.fields = {name: (name, Decl(type_, Node())) for name, type_ in own.items()}
    return {**known, COMPOSED: DeclaredVariable(decl.type, decl)}
