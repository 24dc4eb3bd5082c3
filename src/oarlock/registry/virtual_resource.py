"""The same recipes over a user's own storage: a resource whose objects come from `VirtualMethods`.

Defaulting, validation, admission, preconditions, dry runs, selectors, sorting and paging are the
framework's here too; a user's method only stores and fetches. Without a version of its own a list carries
the process's counter, which grows with every write made through this server.
Must not know: URLs. Next: `virtual`, where users write the methods.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from oarlock.meta.context import Context
from oarlock.meta.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    InvalidObject,
    MethodNotAllowed,
    NotFound,
    ServerTimeout,
)
from oarlock.meta.names import generate_name
from oarlock.meta.options import DeleteOptions, ListOptions
from oarlock.registry.body import Body, compile_bodies, settle
from oarlock.registry.create import NAME_ATTEMPTS
from oarlock.registry.metadata import (
    check_place,
    differ,
    fill_new,
    keep_status,
    keep_system,
    only_status,
    settle_namespace,
)
from oarlock.registry.outcome import Listing, Outcome
from oarlock.registry.resource import Settings, copy_tree
from oarlock.registry.served import Gate, Served, Tree
from oarlock.registry.update import Change
from oarlock.registry.virtual_selection import Choice, choose
from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.objectmeta import validate_object_meta, validate_object_meta_update

__all__ = ["VirtualResource"]

UPDATE_ATTEMPTS = 16
"""How often a patch is made again when the user's storage says that another writer was faster."""


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
        choice = self._choice(version, options)
        after = _after(options.continue_token) if options.continue_token else None
        found, revision = await self.methods.list(ctx.target.namespace, ctx)
        trees = [tree for tree in map(self._complete, found) if choice.metadata(tree["metadata"])]
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

    async def create(self, ctx: Context, version: str, body: Body, gate: Gate) -> Outcome:
        """Raises AlreadyExists, InvalidObject, BadRequest, and what admission or the user's method refuses with."""
        if self.methods.create is None:
            raise MethodNotAllowed(self.definition.group_resource, "create")
        settle(body, self.compiled[version], self.served.hooks, ctx)
        metadata = body.tree["metadata"]
        settle_namespace(metadata, ctx.target.namespace, namespaced=self.definition.namespaced)
        base = metadata.get("generateName")
        if metadata.get("name") or not base:
            return await self._create(ctx, version, body, gate)
        pristine, mark = copy_tree(body.tree), ctx.notes.mark()
        for _ in range(NAME_ATTEMPTS):
            ctx.notes.rewind(mark)
            name = generate_name(base, self.settings.random(5))
            tree = copy_tree(pristine)
            tree["metadata"]["name"] = name
            try:
                return await self._create(ctx, version, Body(tree, body.wording), gate)
            except AlreadyExists:
                continue
        raise AlreadyExists.generated(self.definition.group_resource, name)

    async def _create(self, ctx: Context, version: str, body: Body, gate: Gate) -> Outcome:
        create = self.methods.create
        assert create is not None
        new = await self._mutated(ctx, version, ("CREATE", body, None), gate)
        fill_new(new["metadata"], ctx, self.definition, self.settings.random(16))
        if self.definition.version(version).status:
            new.pop("status", None)
        self._validate(new, None, version)
        await gate.validate(ctx, "CREATE", new, None)
        if await self._taken(ctx, new):
            raise AlreadyExists(self.definition.group_resource, new["metadata"]["name"])
        if ctx.dry_run and "create" not in self.methods.takes_dry_run:
            return Outcome(new, created=True)
        hub = await self._convert(copy_tree(new), version, self.definition.hub)
        made = self._complete(await create(hub, ctx, ctx.dry_run))
        if not ctx.dry_run:
            self._writes += 1
        return Outcome(await self._shown(made, version), created=True)

    async def update(self, ctx: Context, version: str, change: Change, gate: Gate, *, status: bool = False) -> Outcome:
        """Raises NotFound, Conflict, InvalidObject, BadRequest, and what admission or the user's method refuses with.

        A patch that named no resourceVersion and met a `Conflict` of the user's is made again on the newer object.
        """
        if self.methods.update is None or (self.methods.get is None and not change.replaces):
            raise MethodNotAllowed(self.definition.group_resource, "update")
        mark = ctx.notes.mark()
        for _ in range(UPDATE_ATTEMPTS):
            outcome = await self._update(ctx, version, change, (gate, status))
            if outcome is not None:
                return outcome
            ctx.notes.rewind(mark)
            if ctx.clock.monotonic() > ctx.deadline:
                break
        raise ServerTimeout(self.definition.group_resource, "update")

    async def _update(self, ctx: Context, version: str, change: Change, how: tuple[Gate, bool]) -> Outcome | None:
        gate, status = how
        update, definition = self.methods.update, self.definition
        assert update is not None
        live = await self._live(ctx) if self.methods.get is not None else None
        old = await self._shown(copy_tree(live), version) if live is not None else None
        body = change.make({} if change.replaces or old is None else copy_tree(old))
        settle(body, self.compiled[version], self.served.hooks, ctx)
        check_place(body.tree["metadata"], ctx.target, namespaced=definition.namespaced)
        if old is not None and definition.version(version).status:
            keep = only_status if status else keep_status
            body.tree = keep(body.tree, copy_tree(old))
        expected = body.tree["metadata"].get("resourceVersion") or ""
        if old is not None and expected and expected != old["metadata"].get("resourceVersion", expected):
            raise Conflict(definition.group_resource, ctx.target.name)
        new = await self._mutated(ctx, version, ("UPDATE", body, old), gate)
        if old is not None:
            self._keep_system(new, old, version, status=status)
        self._validate(new, old, version)
        await gate.validate(ctx, "UPDATE", new, old)
        if ctx.dry_run and "update" not in self.methods.takes_dry_run:
            return Outcome(new)
        hub = await self._convert(copy_tree(new), version, definition.hub)
        carry_over: Any = getattr(self.served.converter, "carry_over", None)
        if live is not None and version != definition.hub and carry_over is not None:
            hub = carry_over(hub, live, version)
        try:
            made = self._complete(await update(hub, expected, ctx, ctx.dry_run))
        except Conflict:
            if change.replaces:
                raise
            return None
        if not ctx.dry_run:
            self._writes += 1
        return Outcome(await self._shown(made, version))

    def _keep_system(self, new: Tree, old: Tree, version: str, *, status: bool) -> None:
        keep_system(new["metadata"], old["metadata"])
        counted = self.definition.generation and not status and "generation" in old["metadata"]
        if counted and differ(self.definition, version, new, old):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1

    async def _mutated(self, ctx: Context, version: str, what: tuple[str, Body, Tree | None], gate: Gate) -> Tree:
        """What mutating admission made of the object, settled again; it can't rename or move it."""
        operation, body, old = what
        kept = {name: body.tree["metadata"].get(name) for name in ("name", "namespace")}
        changed = await gate.mutate(ctx, operation, body.tree, old)
        if changed is None or changed is body.tree:
            return body.tree
        again = Body(changed, body.wording)
        settle(again, self.compiled[version], self.served.hooks, ctx)
        metadata = again.tree["metadata"]
        for name, value in kept.items():
            metadata.pop(name, None)
            if value is not None:
                metadata[name] = value
        return again.tree

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
            gone = await self.methods.delete(ctx.target.namespace, ctx.target.name, ctx, ctx.dry_run)
            if old is None and gone is not None:
                old = await self._shown(self._complete(gone), version)
            if not ctx.dry_run:
                self._writes += 1
        uid = (old or {}).get("metadata", {}).get("uid", "")
        return Outcome(old or {"metadata": {"name": ctx.target.name}}, gone=True, uid=uid, name=ctx.target.name)

    async def watch(self, ctx: Context, version: str, options: ListOptions) -> AsyncIterator[tuple[str, Tree]]:
        """The user's events, selected and in `version`."""
        if self.methods.watch is None:
            raise MethodNotAllowed(self.definition.group_resource, "watch")
        choice = self._choice(version, options)
        seen: dict[tuple[str, str], Tree] = {}
        async for kind, tree in self.methods.watch(ctx.target.namespace, ctx):
            shown = await self._shown(self._complete(tree), version)
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

    async def _all_shown(self, trees: list[Tree], version: str) -> list[Tree]:
        return await self.served.convert(trees, self.definition.hub, version) if trees else trees

    async def _convert(self, tree: Tree, from_version: str, to_version: str) -> Tree:
        return (await self.served.convert([tree], from_version, to_version))[0]

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
