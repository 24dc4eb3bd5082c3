"""PATCH with an apply configuration (server-side apply); may create the object. `PatchWording` is that of all patches.

See also: ``patch.apply.tracking``, which merges and sets managedFields; ``registry.write.recipe``.
Source: KEP-555; the API concepts' page on server-side apply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from oarlock.codec import cbor as cbor_codec
from oarlock.codec import json as json_codec
from oarlock.codec import yaml as yaml_codec
from oarlock.endpoints import respond
from oarlock.endpoints.bodies import REDACTED, body_offload_bytes, may_be_quoted, why_undecodable, yaml_problems
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import CBOR, JSON, YAML, offload
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.endpoints.verbs.read import once_initialized
from oarlock.meta import options_parse
from oarlock.meta.context import Context, Target
from oarlock.meta.errors import BadRequest, FieldConflict, InvalidObject, StatusError
from oarlock.meta.fielderrors import FieldError, Invalid, WrongType
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.patch.apply.reconcile import conflict_causes, conflict_message
from oarlock.patch.errors import ApplyConflict, ApplyError, ManagedFieldsError
from oarlock.registry.conversions import copy_tree
from oarlock.registry.workers import Workers
from oarlock.registry.write.body import DecodedBody
from oarlock.registry.write.metadata import ConversionFailed, writer_of
from oarlock.registry.write.recipe import Change


class PatchWording(Struct, eq=False, frozen=True):
    """422: for wrong types on their fields, else on the pseudo-field ``patch`` with the text of `shown`.

    `shown` is called only for an error, which may be after undeclared fields were removed; usually it shows the object
    right after the patch. `target` is the kind of what is patched. `strategic` says that it is a strategic merge patch:
    of wrong types the first is told then, in Go's words, which clients look for.
    """

    target: Target
    shown: Callable[[], str]
    strategic: bool = False

    def type_errors(self, errors: list[FieldError], problems: list[str]) -> StatusError:
        if self.strategic and isinstance(errors[0], WrongType) and errors[0].restoring:
            refusal = self.refused(errors[0].restoring)
            refusal.errors = errors
            return refusal
        unknown: list[FieldError] = [Invalid("patch", "", problem) for problem in problems]
        return InvalidObject(self.target.group_kind, self.target.name, errors + unknown)

    def strict(self, problems: list[str]) -> StatusError:
        return self.refused("strict decoding error: " + ", ".join(problems))

    def refused(self, why: str) -> StatusError:
        """The error for a patch that can't be applied at all."""
        return InvalidObject(GroupKind("", ""), "", [Invalid("patch", self.shown(), why)])


async def apply(state: RequestState, route: ResourceRoute, *, in_cbor: bool = False) -> Response:
    """Answer with the object after the apply; 201 if it was created."""
    accepted = respond.accept(state, route)
    data = await state.request.read()
    options = options_parse.patch_options(route.pairs, is_apply=True)
    resource = route.resource
    kind = route.entry.gvk.kind
    config, duplicates, offload_bytes = await _decoded(resource.settings.workers, data, in_cbor, kind)
    if state.audit is not None:
        await offload(len(data), state.audit.add_patch, config)
    _check_kind(config, route.entry)
    ctx = state.context(options=options, dry_run=options.dry_run)
    _report(duplicates, ctx)
    writer = writer_of(ctx)

    def make(live: Tree) -> DecodedBody:
        try:
            of_object = config if route.scaling is None else route.scaling.configuration(config, live)
            merged = resource.fields.apply(live or None, of_object, writer, force=bool(options.force))
        except ApplyConflict as error:
            raise FieldConflict(conflict_message(error.conflicts), conflict_causes(error.conflicts)) from None
        except ManagedFieldsError as error:
            raise BadRequest(str(error)) from None
        except ConversionFailed as error:
            raise error.status from None
        except ApplyError as error:
            raise BadRequest(
                f"failed to create typed patch object ({_name_of(config, route.entry)}): {error}"
            ) from None
        tree = copy_tree(merged)
        return DecodedBody(tree, PatchWording(ctx.target, lambda: _shown(tree, kind)), derived=True)

    change = Change(make, replaces=False, applies=True, offload_bytes=offload_bytes)
    if route.scaling is not None:
        change = route.scaling.change(change, ctx)
    result = await route.resource.update(ctx, route.target.version, change, route.gate)
    item = await once_initialized(state, route, result) if result.created else result.item
    return await respond.item_response(state, route, item, accepted, 201 if result.created else 200)


async def _decoded(workers: Workers, data: bytes, in_cbor: bool, kind: str) -> tuple[Tree, list[str], int]:
    """The configuration, its duplicate fields, and its `workers.offload_bytes`.

    JSON is YAML too, and much faster to decode as JSON. What isn't quite JSON, such as YAML in flow style, is decoded
    as YAML all the same.
    """
    if not in_cbor and data.lstrip()[:1] == b"{":
        size = body_offload_bytes(data, JSON)
        config = await workers.begin(size, _of_json, data)
        if config is not None:
            return _configuration(config, "YAML"), [], size
    size = body_offload_bytes(data, CBOR if in_cbor else YAML)
    form, decode = ("CBOR", cbor_codec.decode) if in_cbor else ("YAML", yaml_codec.decode)
    try:
        found = await (workers.begin if in_cbor else workers.begin_slowly)(size, decode, data)
    except ValueError as error:
        raise BadRequest(f"error decoding {form}: {why_undecodable(kind, error)}") from None
    config, lines = (found, []) if in_cbor else found
    return _configuration(config, form), lines, size


def _shown(tree: Tree, kind: str) -> str:
    return json_codec.encode(tree).decode() if may_be_quoted(kind) else REDACTED


def _of_json(data: bytes) -> Any:
    """The value of JSON without duplicate fields; None for what YAML has to decode."""
    try:
        value = json_codec.decode(data, whole_as_int=True)
    except ValueError:
        return None
    return None if json_codec.duplicates(data) else value


def _configuration(config: Any, form: str) -> Tree:
    if not isinstance(config, dict):
        raise BadRequest(f"error decoding {form}: an apply configuration must be an object")
    metadata = config.get("metadata")
    if metadata is None:
        config["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise BadRequest(f"error decoding {form}: metadata must be an object")
    return config


def _report(duplicates: list[str], ctx: Context) -> None:
    if not duplicates:
        return
    if ctx.options.field_validation == "Strict":
        (errors,) = yaml_problems(duplicates)
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {errors}")
    if ctx.options.field_validation == "Warn":
        for line in duplicates:
            ctx.warn(line)


def _check_kind(config: Tree, entry: CatalogEntry) -> None:
    api_version, kind = _text(config, "apiVersion"), _text(config, "kind")
    if (api_version, kind) == (entry.api_version, entry.gvk.kind):
        return
    if kind == entry.gvk.kind and api_version:
        raise BadRequest(
            f"Incorrect version specified in apply patch. Specified patch version: {api_version}, "
            f"expected: {entry.api_version}"
        )
    raise BadRequest(f"invalid object type: {api_version or '/'}, Kind={kind}")


def _name_of(config: Tree, entry: CatalogEntry) -> str:
    metadata = config["metadata"]
    name = f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}"
    return f"{name}; {entry.api_version}, Kind={entry.gvk.kind}"


def _text(tree: Tree, key: str) -> str:
    """The text at `key`; empty for any other value."""
    value = tree.get(key)
    return value if isinstance(value, str) else ""
