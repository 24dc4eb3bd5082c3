"""What config maps and secrets have in common: the keys of their data, its size, and that it may be immutable.

Source: Kubernetes' validation of both; messages and order are Kubernetes'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from oarlock.apps.kinds.core.objects import ConfigMap, Secret
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid
from oarlock.meta.names import regex_complaint

__all__ = ["MOST_BYTES", "changed_although_immutable", "forbidden", "key_errors"]

MOST_BYTES = 1024 * 1024
_LONGEST_KEY = 253
_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_CHARACTERS = regex_complaint(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "[-._a-zA-Z0-9]+",
    "key.name",
    "KEY_NAME",
    "key-name",
)


def key_errors(field: str, keys: Iterable[str]) -> Iterator[FieldError]:
    """What is wrong with the keys of the dict called `field`."""
    for key in sorted(keys):
        for complaint in _complaints(key):
            yield Invalid(f"{field}[{key}]", key, complaint)


def _complaints(key: str) -> Iterator[str]:
    if len(key) > _LONGEST_KEY:
        yield f"must be no more than {_LONGEST_KEY} characters"
    if _KEY.fullmatch(key) is None:
        yield _CHARACTERS
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def changed_although_immutable(
    new: ConfigMap | Secret, old: ConfigMap | Secret, fields: Iterable[str]
) -> Iterator[str]:
    """The fields (their Python names) that an update changes although the object is immutable."""
    if old.immutable:
        if not new.immutable:
            yield "immutable"
        for name in fields:
            if getattr(new, name) != getattr(old, name):
                yield name


def forbidden(field: str) -> FieldError:
    """The error of a field that `changed_although_immutable` names."""
    return Forbidden(field, "field is immutable when `immutable` is set")
