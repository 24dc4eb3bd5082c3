"""What the server does with config maps beyond storing them. Source: Kubernetes' validation of ConfigMap."""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.apps.controlplane.collections.keys_of_data import (
    MOST_BYTES,
    changed_although_immutable,
    forbidden,
    key_errors,
)
from oarlock.apps.kinds.core.objects import ConfigMap
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, TooLong
from oarlock.registry.hooks.collection import StoredCollection

__all__ = ["ConfigMapCollection"]

_WIRE = {"immutable": "immutable", "data": "data", "binary_data": "binaryData"}


class ConfigMapCollection(StoredCollection[ConfigMap]):
    """Config maps have valid keys and a limited size, and stay as they are once they are immutable."""

    __threadsafe__ = True

    def validate(self, new: ConfigMap, old: ConfigMap | None, ctx: Context) -> Iterator[FieldError]:
        for key in sorted(new.data.keys() & new.binary_data.keys()):
            yield Invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        yield from key_errors("data", new.data)
        yield from key_errors("binaryData", new.binary_data)
        size = sum(len(text.encode()) for text in new.data.values()) + sum(map(len, new.binary_data.values()))
        if size > MOST_BYTES:
            yield TooLong("[]", MOST_BYTES)
        if old is not None:
            for name in changed_although_immutable(new, old, ("data", "binary_data")):
                yield forbidden(_WIRE[name])
