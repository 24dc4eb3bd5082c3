"""Request bodies: read, decoded by Content-Type, and checked against the kind in the URL.

Must not know: schemas (`registry.body` applies them). See also: ``verbs.create``.
"""

from __future__ import annotations

import re
from functools import partial

from oarlock.codec import cbor as cbor_codec
from oarlock.codec import json as json_codec
from oarlock.codec import protobuf as protobuf_codec
from oarlock.codec import yaml as yaml_codec
from oarlock.codec.kubernetes_messages import Message
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import CBOR, JSON, NAMED, PROTOBUF, YAML, content_type
from oarlock.meta.errors import BadRequest, InvalidObject, UnsupportedMediaType
from oarlock.meta.fielderrors import Invalid, WrongType
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind, GroupVersion
from oarlock.registry.workers import Workers, offload_bytes
from oarlock.registry.write.body import YAML_ERRORS, BodyWording, DecodedBody

SHOWN_BYTES = 30
MOST_SHOWN = 10_000

DENSE_BYTES = 4 * 1024
"""In bytes. A larger body that isn't JSON is decoded in a thread."""


def media_type(state: RequestState) -> str:
    """The media type of the body: JSON, YAML, CBOR or protobuf. Raises UnsupportedMediaType."""
    header = state.request.headers.get("content-type", "")
    media = JSON if not header or header == JSON else content_type(header)
    if media not in (JSON, YAML, CBOR, PROTOBUF):
        raise UnsupportedMediaType(NAMED)
    return media


async def read_object(workers: Workers, data: bytes, media: str, entry: CatalogEntry, validation: str) -> DecodedBody:
    """`object_body`, in a thread for a large body. Raises TooManyRequests too."""
    size = offload_bytes(data) if media == JSON else body_offload_bytes(data, media)
    if not size:
        return object_body(data, media, entry, validation)
    begin = workers.begin_slowly if media == YAML else workers.begin
    body = await begin(size, object_body, data, media, entry, validation)
    body.offload_bytes = size
    return body


def body_offload_bytes(data: bytes, media: str) -> int:
    """The `workers.offload_bytes` of a body; formats other than JSON hold more in fewer bytes."""
    if media == JSON:
        return offload_bytes(data)
    if len(data) > DENSE_BYTES or (media == YAML and b"&" in data):  # a YAML anchor may be referred to many times
        return len(data)
    return 0


def object_body(data: bytes, media: str, entry: CatalogEntry, validation: str) -> DecodedBody:
    """Decode a body as an object of `entry`'s kind and version. It may omit both, but not name another.

    `validation` is the request's fieldValidation; duplicate fields are looked for unless it is Ignore. Raises
    BadRequest, UnsupportedMediaType.
    """
    kind = entry.gvk.kind
    wording = BodyWording(kind, entry.gvk.version)
    typed = entry.definition.typed
    problems: list[str] = []
    if media == PROTOBUF and entry.protobuf is not None:
        tree = decode_protobuf(data, entry.protobuf, kind)
    else:
        tree, problems = decode_tree(data, media, kind, validation, typed=typed)
    if not typed and tree.get("apiVersion") and not tree.get("kind"):
        text = data.decode("utf-8", "replace")
        raise _unrecognized(kind, f"Object 'Kind' is missing in '{text[:MOST_SHOWN]}'", data)
    _check_kind(tree, entry)
    tree["apiVersion"], tree["kind"] = entry.api_version, kind
    body = DecodedBody(tree, wording, problems)
    if typed and media == JSON and problems:
        body.in_order = partial(json_codec.strict_errors, data)
    elif typed and media == YAML:
        body.in_order = partial(_sorted, problems)
    return body


def _sorted(problems: list[str], unknown: list[str]) -> list[str]:
    """The problems of a YAML body, of which Kubernetes decodes JSON with sorted keys."""
    paths = sorted(
        unknown, key=lambda path: [(len(step), step) if step.isdigit() else (0, step) for step in _steps(path)]
    )
    return [*problems, *(f"unknown field {quote(path)}" for path in paths)]


_steps = re.compile(r"[.\[\]]+").split


def decode_protobuf(data: bytes, message: Message, kind: str) -> Tree:
    """Decode a body in Kubernetes' protobuf envelope with `message` in it."""
    try:
        return protobuf_codec.decode(data, message)
    except ValueError as error:
        raise _unrecognized(kind, str(error), data) from None


def decode_tree(data: bytes, media: str, kind: str, validation: str, *, typed: bool = False) -> tuple[Tree, list[str]]:
    """The tree in a body, and its duplicate fields. If `typed`, an object given twice has the fields of both."""
    if media == PROTOBUF:
        raise _protobuf(data, kind)
    problems: list[str] = []
    try:
        if media == YAML:
            tree, lines = yaml_codec.decode(data)
            problems = yaml_problems(lines)
        elif media == CBOR:
            tree = cbor_codec.decode(data)
        else:
            tree = json_codec.decode(data)
            if typed or validation != "Ignore":
                for path in json_codec.duplicates(data, tree):
                    problems.append(f"duplicate field {quote(path)}")
            if typed and problems:
                tree = json_codec.merged(data)
    except ValueError as error:
        prefix = f"{media.rpartition('/')[2]} parse error"
        why = f"couldn't get version/kind; {prefix}: {why_undecodable(kind, error)}"
        raise _unrecognized(kind, why, data) from None
    if not isinstance(tree, dict):
        why = f"couldn't get version/kind: {WrongType('', 'an object', tree).body}"
        raise _unrecognized(kind, why, data)
    return tree, problems


def yaml_problems(lines: list[str]) -> list[str]:
    """Duplicate keys of YAML as the one problem that go-yaml makes of them; nothing if there are none."""
    return [YAML_ERRORS + "\n".join(f"  {line}" for line in lines)] if lines else []


def may_be_quoted(kind: str) -> bool:
    """Whether error messages, which are logged and audited, may have parts of a body of this kind."""
    return kind not in _CONFIDENTIAL


REDACTED = "<contents redacted>"
"""What errors show instead of what may not be quoted."""

_CONFIDENTIAL = frozenset(("Secret", "TokenRequest", "TokenReview", "DeleteOptions"))
"""With a deletion clients send the object itself by mistake, whatever its kind."""

_quoted = re.compile(r"'[^']*'|`[^`]*`").sub


def why_undecodable(kind: str, error: ValueError) -> str:
    """What the decoder of a body says, as far as it may be shown."""
    return str(error) if may_be_quoted(kind) else _quoted("…", str(error))


def _unrecognized(kind: str, why: str, data: bytes) -> BadRequest:
    if not may_be_quoted(kind):
        return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {why}")
    shown = data[:SHOWN_BYTES]
    text = shown.decode("utf-8", "replace") if data[:1] == b"{" else shown.hex()
    dots = " ..." if len(data) > SHOWN_BYTES else ""
    return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {why} ({text}{dots})")


def _protobuf(data: bytes, kind: str) -> Exception:
    if data.startswith(protobuf_codec.MAGIC):
        return UnsupportedMediaType((JSON, YAML))
    why = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    return _unrecognized(kind, why, data)


def _name_of(tree: Tree) -> str:
    metadata = tree.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return name if isinstance(name, str) else ""


def _check_kind(tree: Tree, entry: CatalogEntry) -> None:
    gvk = entry.gvk
    api_version, kind = tree.get("apiVersion"), tree.get("kind")
    if api_version in (None, ""):
        # a custom resource is of no type that could say its version; ours may leave out both
        api_version = "" if kind and not entry.definition.typed else entry.api_version
    kind = gvk.kind if kind in (None, "") else kind
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {gvk.kind}): apiVersion and kind must be strings"
        )
    if api_version == entry.api_version and kind == gvk.kind:
        return
    if api_version == entry.api_version and not entry.definition.typed:
        raise InvalidObject(GroupKind(gvk.group, kind), _name_of(tree), [Invalid("kind", kind, f"must be {gvk.kind}")])
    try:
        body_version = GroupVersion.parse(api_version)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    versions = {version.name for version in entry.definition.versions}
    known = body_version.group == gvk.group and body_version.version in versions
    if kind == gvk.kind and (known or not entry.definition.typed):
        raise BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version ({entry.api_version})"
        )
    raise BadRequest(
        f'{kind} in version "{body_version.version}" cannot be handled as a {gvk.kind}: '
        f'no kind "{kind}" is registered for version "{api_version}" at this path'
    )
