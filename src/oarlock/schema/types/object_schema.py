"""The schema of a whole object of a declared class: its fields, apiVersion, kind and metadata.

Must not know: other versions. See also: `definitions` and `views`, which need it.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from oarlock.schema.definition import Schema
from oarlock.schema.types import reflect
from oarlock.schema.types.declaring import HintError, member_place
from oarlock.schema.types.resources import declared

__all__ = ["object_schema"]


_MADE: WeakKeyDictionary[type, Schema] = WeakKeyDictionary()
"""What a class declares stays the same: a process that makes many servers reads it once."""


def object_schema(cls: type) -> Schema:
    """The schema of a whole object of a declared class, as a CRD's ``openAPIV3Schema``; don't change it."""
    made = _MADE.get(cls)
    if made is None:
        made = _MADE[cls] = _read(cls)
    return made


def _read(cls: type) -> Schema:
    declaration = declared(cls)
    try:
        schema = reflect.schema_of(cls)
    except reflect.Unresolved as error:
        raise HintError(
            error.subject,
            f"its hint can't be resolved: {error.why}",
            "import or define it in this module, outside of TYPE_CHECKING",
            place=member_place(error.place or declaration.place, error.subject),
        ) from error
    own = {name: prop for name, prop in schema["properties"].items() if name != "metadata"}
    string: Schema = {"type": "string"}
    schema["properties"] = {"apiVersion": dict(string), "kind": dict(string), "metadata": {"type": "object"}, **own}
    rules = declaration.facts.get("rules", ())
    if rules:
        schema["x-kubernetes-validations"] = [reflect.rule_tree(rule) for rule in rules]
    return schema
