"""The same recipes over a user's own storage: a resource whose objects come from `VirtualMethods`.

Defaulting, validation, admission, preconditions, dry runs, selectors, sorting and paging are the
framework's here too; a user's method only stores and fetches. Without a version of its own a list carries
the process's counter, which grows with every write made through this server.
Must not know: URLs. Next: `virtual`, where users write the methods.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from oarlock.meta import fields, labels
from oarlock.meta.context import Context
from oarlock.meta.errors import AlreadyExists, BadRequest, Conflict, InvalidObject, MethodNotAllowed, NotFound
from oarlock.meta.options import DeleteOptions, ListOptions
from oarlock.registry.body import Body, compile_bodies, settle
from oarlock.registry.metadata import fill_new, generated_name, settle_namespace
from oarlock.registry.outcome import Listing, Outcome
from oarlock.registry.resource import Settings, copy_tree
from oarlock.registry.served import Gate, Served, Tree
from oarlock.registry.update import Change
from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.objectmeta import validate_object_meta, validate_object_meta_update

__all__ = ["VirtualResource"]


class VirtualResource:
    """One virtual resource."""

    def __init__(self, served: Served, settings: Settings) -> None:
        if served.virtual is None:
            raise ValueError("a VirtualResource is made of a Served with virtual methods")
        self.served = served
        self.definition = served.definition
        self.methods = served.virtual
        self.settings = settings
        self.compiled: dict[str, CompiledVersion] = {
            version.name: compile_version(served.definition, version.name) for version in served.definition.versions
        }
        self.bodies = compile_bodies(served.definition)
        self._writes = 1
        self._enders: set[Callable[[], None]] = set()

    async def get(self, ctx: Context, version: str) -> Tree:
        """Raises NotFound, MethodNotAllowed, and whatever the user's method raises."""
        if self.methods.get is None:
            raise MethodNotAllowed(self.definition.group_resource, "get")
        return await self._shown(await self._live(ctx), version)

    async def list_items(self, ctx: Context, version: str, options: ListOptions) -> Listing:
        """Selected, sorted by namespace and name, and paged: a page starts after the last key of the one before."""
        if self.methods.list is None:
            raise MethodNotAllowed(self.definition.group_resource, "list")
        matches = _matcher(options)
        found, revision = await self.methods.list(ctx.target.namespace, ctx)
        trees = [tree for tree in (self._complete(t) for t in found) if matches(tree["metadata"])]
        trees.sort(key=_place)
        return await self._paged(trees, revision or str(self._writes), version, options)

    async def create(self, ctx: Context, version: str, body: Body, gate: Gate) -> Outcome:
        if self.methods.create is None:
            raise MethodNotAllowed(self.definition.group_resource, "create")
        settle(body, self.compiled[version], self.served.hooks, ctx)
        metadata = body.tree["metadata"]
        settle_namespace(metadata, ctx.target.namespace, namespaced=self.definition.namespaced)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = generated_name(metadata["generateName"], self.settings.random(5))
        new = await gate.mutate(ctx, "CREATE", body.tree, None) or body.tree
        fill_new(new["metadata"], ctx, self.definition, self.settings.random(16))
        self._validate(new, None, version)
        await gate.validate(ctx, "CREATE", new, None)
        if await self._taken(ctx, new):
            raise AlreadyExists(self.definition.group_resource, new["metadata"]["name"])
        if ctx.dry_run and "create" not in self.methods.takes_dry_run:
            return Outcome(new, created=True)
        hub = await self._convert(copy_tree(new), version, self.definition.hub)
        made = self._complete(await self.methods.create(hub, ctx, ctx.dry_run))
        if not ctx.dry_run:
            self._writes += 1
        return Outcome(await self._shown(made, version), created=True)

    async def update(self, ctx: Context, version: str, change: Change, gate: Gate, *, status: bool = False) -> Outcome:
        if self.methods.update is None or (self.methods.get is None and not change.replaces):
            raise MethodNotAllowed(self.definition.group_resource, "update")
        live = await self._live(ctx) if self.methods.get is not None else None
        old = await self._shown(copy_tree(live), version) if live is not None else None
        body = change.make({} if change.replaces or old is None else copy_tree(old))
        settle(body, self.compiled[version], self.served.hooks, ctx)
        metadata = body.tree["metadata"]
        if metadata.get("name") != ctx.target.name:
            given = metadata.get("name", "")
            raise BadRequest(f"the name of the object ({given}) does not match the name on the URL ({ctx.target.name})")
        settle_namespace(metadata, ctx.target.namespace, namespaced=self.definition.namespaced)
        expected = metadata.get("resourceVersion") or ""
        if old is not None and expected and expected != old["metadata"].get("resourceVersion", expected):
            raise Conflict(self.definition.group_resource, ctx.target.name)
        new = await gate.mutate(ctx, "UPDATE", body.tree, old) or body.tree
        self._validate(new, old, version)
        await gate.validate(ctx, "UPDATE", new, old)
        if ctx.dry_run and "update" not in self.methods.takes_dry_run:
            return Outcome(new)
        hub = await self._convert(copy_tree(new), version, self.definition.hub)
        made = self._complete(await self.methods.update(hub, expected, ctx, ctx.dry_run))
        if not ctx.dry_run:
            self._writes += 1
        return Outcome(await self._shown(made, version))

    async def delete(self, ctx: Context, version: str, options: DeleteOptions, gate: Gate) -> Outcome:
        if self.methods.delete is None:
            raise MethodNotAllowed(self.definition.group_resource, "delete")
        live = await self._live(ctx) if self.methods.get is not None else None
        wanted = options.preconditions
        if live is not None and wanted is not None:
            self._check_preconditions(ctx, live["metadata"], (wanted.uid, wanted.resource_version))
        old = await self._shown(copy_tree(live), version) if live is not None else None
        await gate.mutate(ctx, "DELETE", None, old)
        await gate.validate(ctx, "DELETE", None, old)
        if not (ctx.dry_run and "delete" not in self.methods.takes_dry_run):
            await self.methods.delete(ctx.target.namespace, ctx.target.name, ctx, ctx.dry_run)
            if not ctx.dry_run:
                self._writes += 1
        uid = (old or {}).get("metadata", {}).get("uid", "")
        return Outcome(old or {"metadata": {"name": ctx.target.name}}, gone=True, uid=uid, name=ctx.target.name)

    async def watch(self, ctx: Context, version: str, options: ListOptions) -> AsyncIterator[tuple[str, Tree]]:
        """The user's events, selected and in `version`."""
        if self.methods.watch is None:
            raise MethodNotAllowed(self.definition.group_resource, "watch")
        matches = _matcher(options)
        async for kind, tree in self.methods.watch(ctx.target.namespace, ctx):
            complete = self._complete(tree)
            if kind == "BOOKMARK" or matches(complete["metadata"]):
                yield kind, await self._shown(complete, version)

    def on_end(self, end: Callable[[], None]) -> Callable[[], None]:
        """Call `end` when this resource is withdrawn; returns how to forget about it."""
        self._enders.add(end)
        return lambda: self._enders.discard(end)

    def end_watches(self) -> None:
        for end in list(self._enders):
            end()

    async def _live(self, ctx: Context) -> Tree:
        get: Callable[[str, str, Context], Awaitable[Tree | None]] | None = self.methods.get
        tree = await get(ctx.target.namespace, ctx.target.name, ctx) if get is not None else None
        if tree is None:
            raise NotFound(self.definition.group_resource, ctx.target.name)
        return self._complete(tree)

    async def _taken(self, ctx: Context, new: Tree) -> bool:
        if self.methods.get is None:
            return False
        try:
            return await self.methods.get(ctx.target.namespace, new["metadata"]["name"], ctx) is not None
        except NotFound:
            return False

    def _complete(self, tree: Tree) -> Tree:
        tree["apiVersion"] = self.definition.api_version(self.definition.hub)
        tree["kind"] = self.definition.names.kind
        tree.setdefault("metadata", {})
        return tree

    async def _shown(self, tree: Tree, version: str) -> Tree:
        return await self._convert(tree, self.definition.hub, version)

    async def _convert(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        if from_version == to_version:
            return tree
        converter = self.served.converter
        made = converter.convert_now([tree], from_version, to_version)
        if made is None:
            made = await converter.convert([tree], from_version, to_version)
        made[0]["apiVersion"] = self.definition.api_version(to_version)
        made[0]["kind"] = self.definition.names.kind
        return made[0]

    def _validate(self, new: Tree, old: Tree | None, version: str) -> None:
        definition, metadata = self.definition, new["metadata"]
        found = validate_object_meta(metadata, namespaced=definition.namespaced, name_rule=definition.name_rule)
        if old is not None:
            found += validate_object_meta_update(metadata, old["metadata"])
        found += self.compiled[version].validate(new, old)
        if found:
            raise InvalidObject(definition.group_kind, metadata.get("name", ""), found)

    def _check_preconditions(self, ctx: Context, metadata: Tree, wanted: tuple[str | None, str | None]) -> None:
        for asked, found in zip(wanted, (metadata.get("uid", ""), metadata.get("resourceVersion", "")), strict=True):
            if asked is not None and asked != found:
                why = f"the precondition ({asked}) does not match the record ({found})"
                raise Conflict(self.definition.group_kind, ctx.target.name, why)

    async def _paged(self, trees: list[Tree], revision: str, version: str, options: ListOptions) -> Listing:
        if options.continue_token:
            after = _after(options.continue_token)
            trees = [tree for tree in trees if _place(tree) > after]
        rest = 0
        if options.limit and len(trees) > options.limit:
            rest, trees = len(trees) - options.limit, trees[: options.limit]
        token = _token(_place(trees[-1])) if rest else ""
        shown = [await self._shown(tree, version) for tree in trees]
        remaining = rest if rest and not options.label_selector and not options.field_selector else None
        return Listing([shown], revision, token, remaining)


def _place(tree: Tree) -> tuple[str, str]:
    metadata = tree["metadata"]
    return metadata.get("namespace", ""), metadata.get("name", "")


def _token(place: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _after(token: str) -> tuple[str, str]:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return msgspec.json.decode(raw, type=tuple[str, str])
    except (ValueError, msgspec.DecodeError) as error:
        raise BadRequest(f"invalid continue token: {error}") from None


def _matcher(options: ListOptions) -> Callable[[Tree], bool]:
    try:
        wanted = labels.parse(options.label_selector)
        requirements = fields.parse(options.field_selector).requirements
    except ValueError as error:
        raise BadRequest(str(error)) from None
    for field, _, _ in requirements:
        if field not in ("metadata.name", "metadata.namespace"):
            raise BadRequest(f"field label not supported: {field}")

    def matches(metadata: Tree) -> bool:
        if not wanted.matches(metadata.get("labels") or {}):
            return False
        return all(
            (metadata.get(field.partition(".")[2], "") == value) is (operator != "!=")
            for field, operator, value in requirements
        )

    return matches
