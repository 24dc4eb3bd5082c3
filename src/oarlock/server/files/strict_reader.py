"""`StrictReader`: the fields of a configuration file, where whatever isn't known or of another type is a mistake.

See also: ``authentication.configuration`` and ``authorization.configuration``, which read with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from oarlock.codec import yaml
from oarlock.codec.errors import DecodeError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import ReadOnlyTree
from oarlock.server.options.option import ConfigError

T = TypeVar("T")
MOST_BYTES = 1024 * 1024


class StrictReader:
    """Collects problems, one line each with the field, instead of raising."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def map(self, path: str, tree: Any, known: Sequence[str]) -> ReadOnlyTree:
        """An object with no other fields than `known`."""
        if not isinstance(tree, dict):
            self.wrong(path, "must be an object" if tree is not None else "is required")
            return {}
        for key in tree:
            if key not in known:
                self.wrong(f"{path}.{key}" if path else str(key), "unknown field")
        return tree

    def list(self, field: str, tree: ReadOnlyTree, path: str = "") -> Sequence[Any]:
        value = tree.get(field, [])
        if isinstance(value, list):
            return value
        self.wrong(f"{path}.{field}" if path else field, "must be a list")
        return []

    def text(self, path: str, tree: ReadOnlyTree, field: str) -> str:
        value = tree.get(field, "")
        if isinstance(value, str):
            return value
        self.wrong(f"{path}.{field}", "must be a text")
        return ""

    def one_of(self, path: str, tree: ReadOnlyTree, field: str, known: Sequence[str]) -> str:
        value = self.text(path, tree, field)
        if value not in known:
            self.wrong(f"{path}.{field}", f"{quote(value)} is not {' or '.join(known)}")
        return value

    def wrong(self, path: str, why: str) -> None:
        self.problems.append(f"{path}: {why}" if path else why)


@dataclass(frozen=True, slots=True)
class DecodedFile:
    """What is in a file: the tree, what is wrong with keys that are there twice, the digest of its bytes."""

    tree: Any
    repeated_keys: Sequence[str]
    digest: str


def configured(option: str, file: Path, decode: Callable[[Any], tuple[T, list[str]]]) -> tuple[T, str]:
    """What `decode` makes of the file of an option, and the file's digest. Raises `ConfigError` with every mistake."""
    where = f"--{option}={file}"
    try:
        decoded = decoded_file(file)
    except ValueError as error:
        raise ConfigError([f"{where}: {error}"]) from None
    found, problems = decode(decoded.tree)
    if problems := [*decoded.repeated_keys, *problems]:
        raise ConfigError([f"{where}: {problem}" for problem in problems])
    return found, decoded.digest


def decoded_file(file: Path) -> DecodedFile:
    """What is in a file in YAML or JSON. Raises ValueError, whose text says why."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES} bytes")
        tree, repeated = yaml.decode(data)
        return DecodedFile(tree, repeated, f"sha256:{hashlib.sha256(data).hexdigest()}")
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    except DecodeError as error:
        raise ValueError(str(error)) from None
