"""A resource whose objects come from a user's own storage, from `VirtualMethods`.

Defaulting, validation, admission, preconditions, dry runs, owners of fields, selectors, sorting and paging are the
framework's here too; a user's method only stores and fetches. Without a version of its own a list carries
the process's counter, which grows with every write made through this server.
Must not know: URLs. Next: `virtual_writes`, the other recipes; `virtual`, where users write the methods.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from oarlock.meta.context import Context
from oarlock.meta.errors import (
    BadRequest,
    Conflict,
    InvalidObject,
    MethodNotAllowed,
    NotFound,
)
from oarlock.meta.options import DeleteOptions, ListOptions
from oarlock.registry.body import compile_bodies
from oarlock.registry.managed_fields import tracker_of
from oarlock.registry.outcome import Listing, Outcome
from oarlock.registry.resource import Settings, copy_tree
from oarlock.registry.served import Gate, Served, Tree
from oarlock.registry.virtual_selection import Choice, choose
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
        self.fields = tracker_of(served, self.compiled, copy_tree)
        self._writes = 1
        self._enders: set[Callable[[], None]] = set()

    async def get(self, ctx: Context, version: str) -> Tree:
        """Raises NotFound, MethodNotAllowed, and whatever the user's method raises."""
        if self.methods.get is None:
            raise MethodNotAllowed(self.definition.group_resource, "get")
        return await self.shown(await self.live(ctx), version)

    async def list_items(self, ctx: Context, version: str, options: ListOptions) -> Listing:
        """Selected, sorted by namespace and name, and paged: a page starts after the last key of the one before."""
        if self.methods.list is None:
            raise MethodNotAllowed(self.definition.group_resource, "list")
        choice = self._choice(version, options)
        after = _after(options.continue_token) if options.continue_token else None
        found, revision = await self.methods.list(ctx.target.namespace, ctx)
        trees = [tree for tree in map(self.complete, found) if choice.metadata(tree["metadata"])]
        if after is not None:
            trees = [tree for tree in trees if _place(tree) > after]
        trees.sort(key=_place)
        if choice.content is not None:
            trees = [tree for tree in await self._all_shown(trees, version) if choice.content(tree)]
        rest = max(0, len(trees) - options.limit) if options.limit > 0 else 0
        page = trees[: options.limit] if rest else trees
        token = _token(_place(page[-1])) if rest else ""
        shown = page if choice.content is not None else await self._all_shown(page, version)
        return Listing([shown], revision or str(self._writes), token, rest if rest and choice.everything else None)

    async def delete(self, ctx: Context, version: str, options: DeleteOptions, gate: Gate) -> Outcome:
        if self.methods.delete is None:
            raise MethodNotAllowed(self.definition.group_resource, "delete")
        live = await self.live(ctx) if self.methods.get is not None else None
        wanted = options.preconditions
        if live is not None and wanted is not None:
            self._check_preconditions(ctx, live["metadata"], (wanted.uid, wanted.resource_version))
        old = await self.shown(copy_tree(live), version) if live is not None else None
        await gate.mutate(ctx, "DELETE", None, old)
        await gate.validate(ctx, "DELETE", None, old)
        if not (ctx.dry_run and "delete" not in self.methods.takes_dry_run):
            gone = await self.methods.delete(ctx.target.namespace, ctx.target.name, ctx, ctx.dry_run)
            if old is None and gone is not None:
                old = await self.shown(self.complete(gone), version)
            if not ctx.dry_run:
                self.wrote()
        uid = (old or {}).get("metadata", {}).get("uid", "")
        return Outcome(old or {"metadata": {"name": ctx.target.name}}, gone=True, uid=uid, name=ctx.target.name)

    async def watch(self, ctx: Context, version: str, options: ListOptions) -> AsyncIterator[tuple[str, Tree]]:
        """The user's events, selected and in `version`."""
        if self.methods.watch is None:
            raise MethodNotAllowed(self.definition.group_resource, "watch")
        choice = self._choice(version, options)
        seen: dict[tuple[str, str], Tree] = {}
        async for kind, tree in self.methods.watch(ctx.target.namespace, ctx):
            shown = await self.shown(self.complete(tree), version)
            if choice.everything or kind not in ("ADDED", "MODIFIED", "DELETED"):
                yield kind, shown
            else:
                told = _transition(kind, shown, choice.matches(shown), seen)
                if told is not None:
                    yield told

    def on_end(self, end: Callable[[], None]) -> Callable[[], None]:
        """Call `end` when this resource is withdrawn; returns how to forget about it."""
        self._enders.add(end)
        return lambda: self._enders.discard(end)

    def end_watches(self) -> None:
        for end in list(self._enders):
            end()

    def wrote(self) -> None:
        """Something of it was written."""
        self._writes += 1

    async def live(self, ctx: Context) -> Tree:
        """The object a request is about, in the hub version. Raises NotFound, and what the user's `get` raises."""
        get: Callable[[str, str, Context], Awaitable[Tree | None]] | None = self.methods.get
        tree = await get(ctx.target.namespace, ctx.target.name, ctx) if get is not None else None
        if tree is None:
            raise NotFound(self.definition.group_resource, ctx.target.name)
        self.complete(tree)["metadata"].setdefault("name", ctx.target.name)
        return tree

    async def taken(self, ctx: Context, new: Tree) -> bool:
        """Whether there is an object of that name; False when nobody can tell."""
        if self.methods.get is None:
            return False
        try:
            return await self.methods.get(ctx.target.namespace, new["metadata"]["name"], ctx) is not None
        except NotFound:
            return False

    def complete(self, tree: Tree) -> Tree:
        """The tree, which came from the user, with what every object of the hub version has."""
        tree["apiVersion"] = self.definition.api_version(self.definition.hub)
        tree["kind"] = self.definition.names.kind
        tree.setdefault("metadata", {})
        return tree

    async def shown(self, tree: Tree, version: str) -> Tree:
        """A tree of the hub version, which isn't used any more, in `version`."""
        return await self.convert(tree, self.definition.hub, version)

    async def _all_shown(self, trees: list[Tree], version: str) -> list[Tree]:
        return await self.served.convert(trees, self.definition.hub, version) if trees else trees

    async def convert(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        """The tree in another version; `tree` itself must not be used afterwards."""
        return (await self.served.convert([tree], from_version, to_version))[0]

    def validate(self, new: Tree, old: Tree | None, version: str) -> None:
        """Raise InvalidObject with everything that metadata's rules and the schema mind."""
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

    def _choice(self, version: str, options: ListOptions) -> Choice:
        return choose(options, self.definition.version(version).selectable, self.compiled[version])


def _transition(kind: str, shown: Tree, matches: bool, seen: dict[tuple[str, str], Tree]) -> tuple[str, Tree] | None:
    """What an event is to a watch that selects: objects come into the selection and leave it.

    `seen` is what this watch was told of; an object that leaves is told as it was, at the event's version.
    """
    place = _place(shown)
    before = seen.pop(place, None)
    if kind == "DELETED":
        return ("DELETED", shown) if before is not None or matches else None
    if matches:
        seen[place] = shown
        return ("ADDED" if before is None else "MODIFIED", shown)
    if before is None:
        return None
    left = {**before, "metadata": {**before["metadata"]}}
    if "resourceVersion" in shown["metadata"]:
        left["metadata"]["resourceVersion"] = shown["metadata"]["resourceVersion"]
    return "DELETED", left


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
