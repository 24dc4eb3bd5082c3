"""`part`: a subresource that shows the whole object and changes only some of its fields, as ``/status`` does.

    approval = part("approval", fields=["status.conditions"])

    @approval.validate
    def _check_approval(self, new: Request, old: Request, ctx: Context) -> Iterator[FieldError]: ...

Must not know: how a write is confined to the fields. See also: `object_parts`, which does; `subresource`, for
subresources with a method of their own; `declare`, which wraps the hooks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from oarlock.meta.kinds import GroupVersionKind
from oarlock.registry.hooks.methods import Hook, check_hook
from oarlock.registry.hooks.subresource import MARKER, NAME, DeclaredSubresource
from oarlock.schema.definition import ResourceDefinition, Schema, Subresource, VersionDefinition
from oarlock.schema.types.declaring import DuplicateError, HookError

__all__ = ["DeclaredPart", "check_fields", "find_parts", "part"]

F = TypeVar("F", bound=Callable[..., Any])

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
    """A subresource `name` that answers GET, PUT and PATCH with the whole object, and changes only these `fields`.

        class Requests(StoredCollection[Request]):
            approval = part("approval", fields=["status.conditions"])

            @approval.prepare
            def _sign(self, new: Request, old: Request, ctx: Context) -> None:
                new.status.approved_by = ctx.user.name

    A field is a path such as ``spec.finalizers``. What else a client sends is reset to the live object, and nobody owns
    it in managedFields. The fields are changed here and nowhere else: a write to the object itself, or to ``/status``,
    leaves them alone, and a new object is created without them. With `shared` those may change them too. `versions`
    limits it to some versions; in each the fields must exist. `verbs` are those of its three.
    Generation is incremented as for any other write.

    The methods marked with ``@….prepare`` and ``@….validate`` take ``new, old, ctx`` in the hub version. They are
    synchronous, and run in addition to those of the collection.
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
