"""PATCH with an apply configuration (server-side apply); may create the object.

See also: ``patch.apply.tracking``, which merges and sets managedFields; ``registry.update``, which carries it out.
Source: KEP-555; the API concepts' page on server-side apply.
"""

from __future__ import annotations

from oarlock.codec import cbor as cbor_codec
from oarlock.codec import json as json_codec
from oarlock.codec import yaml as yaml_codec
from oarlock.endpoints import respond
from oarlock.endpoints.bodies import body_weight
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.http import Response
from oarlock.endpoints.negotiation import CBOR, JSON, YAML
from oarlock.endpoints.pacing import offload
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.route import ResourceRoute
from oarlock.endpoints.verbs.initialized import once_initialized
from oarlock.endpoints.verbs.wording import PatchWording
from oarlock.meta import options_parse
from oarlock.meta.context import Context
from oarlock.meta.errors import BadRequest, FieldConflict
from oarlock.meta.gotext import quote
from oarlock.patch.apply import conflicts
from oarlock.patch.apply.errors import ApplyConflict, ApplyError, ManagedFieldsError
from oarlock.registry.body import DecodedBody
from oarlock.registry.conversion import copy_tree
from oarlock.registry.field_conversions import ConversionFailed
from oarlock.registry.managed_fields import writer_of
from oarlock.registry.served import Tree
from oarlock.registry.update import Change

__all__ = ["apply"]


async def apply(state: RequestState, route: ResourceRoute, *, in_cbor: bool = False) -> Response:
    """Answer with the object after the apply; 201 if it was created."""
    accepted = respond.accept(state, route)
    data = await state.request.read()
    options = options_parse.patch_options(route.pairs, is_apply=True)
    resource = route.resource
    weight = _weight(data, in_cbor)
    config, problems = await resource.settings.workers.begin(weight, _decoded, data, in_cbor)
    if state.audit is not None:
        await offload(len(data), state.audit.add_patch, config)
    _check_kind(config, route.entry)
    ctx = state.context(options=options, dry_run=options.dry_run)
    _report(problems, ctx)
    writer = writer_of(ctx)

    def make(live: Tree) -> DecodedBody:
        try:
            of_object = route.represents.configuration(config, live)
            merged = resource.fields.apply(live or None, of_object, writer, force=bool(options.force))
        except ApplyConflict as error:
            raise FieldConflict(conflicts.message(error.conflicts), conflicts.causes(error.conflicts)) from None
        except ManagedFieldsError as error:
            raise BadRequest(str(error)) from None
        except ConversionFailed as error:
            raise error.status from None
        except ApplyError as error:
            raise BadRequest(
                f"failed to create typed patch object ({_name_of(config, route.entry)}): {error}"
            ) from None
        tree = copy_tree(merged)
        return DecodedBody(tree, PatchWording(ctx.target, lambda: json_codec.encode(tree).decode()), derived=True)

    result = await route.write(ctx, Change(make, replaces=False, applies=True, weight=weight))
    item = await once_initialized(state, route, result)
    return await respond.item_response(state, route, item, accepted, 201 if result.created else 200)


def _weight(data: bytes, in_cbor: bool) -> int:
    return body_weight(data, CBOR if in_cbor else JSON if _is_json(data) else YAML)


def _is_json(data: bytes) -> bool:
    """Whether it can be parsed as JSON, which is much faster than YAML."""
    return data.lstrip()[:1] == b"{"


def _decoded(data: bytes, in_cbor: bool) -> tuple[Tree, list[str]]:
    """The configuration, and its duplicate fields."""
    problems: list[str] = []
    form = "CBOR" if in_cbor else "YAML"
    try:
        if in_cbor:
            config = cbor_codec.decode(data)
        elif _is_json(data):
            config = json_codec.decode(data)
            problems = [f"duplicate field {quote(path)}" for path in json_codec.duplicates(data)]
        else:
            config, problems = yaml_codec.decode(data)
    except ValueError as error:
        raise BadRequest(f"error decoding {form}: {error}") from None
    if not isinstance(config, dict):
        raise BadRequest(f"error decoding {form}: an apply configuration must be an object")
    metadata = config.get("metadata")
    if metadata is None:
        config["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise BadRequest(f"error decoding {form}: metadata must be an object")
    return config, problems


def _report(problems: list[str], ctx: Context) -> None:
    if ctx.options.field_validation == "Strict" and problems:
        raise BadRequest("error strict decoding patch: " + ", ".join(problems))
    if ctx.options.field_validation == "Warn":
        for problem in problems:
            ctx.warn(problem)


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
