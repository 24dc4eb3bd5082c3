"""Reads a configuration file: YAML or JSON, one field for each option.

    apiVersion: config.oarlock.dev/v1alpha1
    kind: ServerConfiguration
    bindAddress: 0.0.0.0
    requestTimeout: 1m30s

Unknown and repeated fields are refused. Relative paths in it are relative to its directory, as in kubelet's.
Must not know: which options there are. See also: ``codec.yaml``, which bounds depth and aliases.
"""

from __future__ import annotations

import difflib
import json
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oarlock.codec import yaml
from oarlock.codec.yaml import DecodeError, decode
from oarlock.server.options.flags import Layer
from oarlock.server.options.option import ConfigError, Option, OptionGroup, options_of
from oarlock.server.options.types import PathListType, PathType

API_VERSION = "config.oarlock.dev/v1alpha1"
KIND = "ServerConfiguration"
MAX_BYTES = 1024 * 1024
"""The largest configuration file."""
MAX_UNKNOWN = 20
"""How many unknown fields are named."""
MAX_NAME = 64
"""How many characters of a field's name are shown."""

_TYPE = {"apiVersion": API_VERSION, "kind": KIND}


def read_file(options: Sequence[Option], path: Path) -> Layer:
    """The values in the file at `path`. What is wrong with it is in the layer's `problems`."""
    layer = Layer(names={option.field: option.file_field for option in options})
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES} bytes")
        tree, repeated = decode(data)
    except OSError as error:
        layer.problems.append(f"{path}: {error.strerror}")
    except DecodeError as error:
        layer.problems.append(f"{path}: {str(error).removeprefix('error converting YAML to JSON: ')}")
    except ValueError as error:
        layer.problems.append(f"{path}: {error}")
    else:
        _FileReader(layer, path, data).read(options, tree, repeated)
    return layer


class _FileReader:
    def __init__(self, layer: Layer, path: Path, data: bytes) -> None:
        self._layer = layer
        self._path = path
        # Imported here, because few servers have such a file, and YAML is large.
        from oarlock.server.options.file_lines import lines_of  # noqa: PLC0415 (see above)

        self._lines, self._documents = lines_of(data)

    def read(self, options: Sequence[Option], tree: Any, repeated: Sequence[str]) -> None:
        problems = self._layer.problems
        if not isinstance(tree, dict):
            problems.append(f"{self._path}: write apiVersion: {API_VERSION}, kind: {KIND}, and a field for each option")
            return
        type_problems = [
            f"{self._at(name)}: write {expected}" for name, expected in _TYPE.items() if tree.get(name) != expected
        ]
        if type_problems:  # whatever the fields mean there
            problems += type_problems
            return
        if self._documents > 1:
            problems.append(f"{self._path}: it has {self._documents} documents: write one")
        problems += [f"{self._path}: {line}" for line in repeated]
        by_name = {option.file_field: option for option in options}
        unknown = [name for name in tree if name not in by_name and name not in _TYPE]
        for name in unknown[:MAX_UNKNOWN]:
            near = difflib.get_close_matches(name, by_name, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "oarlock config prints every field"
            problems.append(f"{self._at(name)}: no such field ({hint})")
        if len(unknown) > MAX_UNKNOWN:
            problems.append(f"{self._path}: {len(unknown) - MAX_UNKNOWN} more fields are unknown")
        for name, value in tree.items():
            if name in by_name:
                self._take(by_name[name], value)

    def _at(self, name: str) -> str:
        """``server.yaml:3: securePort``; without the line where it isn't known."""
        line = self._lines.get(name)
        short = name[:MAX_NAME]
        shown = short if short.isidentifier() else json.dumps(short)
        return f"{self._path}{f':{line}' if line else ''}: {shown}"

    def _take(self, declared: Option, tree: Any) -> None:
        place = self._at(declared.file_field)
        if tree is None:  # the default
            return
        try:
            value = declared.type.read(tree)
        except ValueError as error:
            self._layer.refuse(declared, place, error)
            return
        if isinstance(declared.type, PathType) and value is not None:
            value = self._path.parent / value
        if isinstance(declared.type, PathListType):
            value = tuple(self._path.parent / path for path in value)
        self._layer.values[declared.field] = value
        self._layer.places[declared.field] = place


WIDTH = 100


def as_file(options: OptionGroup) -> str:
    """The options as a configuration file. Shows no secret; relative paths become absolute.

    Raises `ConfigError` for a path that isn't UTF-8, which no such file can have.
    """
    return "\n".join(_lines(options)) + "\n"


def _lines(options: OptionGroup) -> Iterator[str]:
    yield f"apiVersion: {API_VERSION}"
    yield f"kind: {KIND}"
    group = ""
    for declared in options_of(type(options)):
        if not declared.in_file:
            continue
        if declared.group != group:
            group = declared.group
            yield from ("", f"# {group}")
        yield ""
        yield from textwrap.wrap(declared.help, WIDTH, initial_indent="# ", subsequent_indent="# ")
        value = _tree(declared, getattr(options, declared.field))
        try:
            yield yaml.encode({declared.file_field: value}).decode().removesuffix("\n")
        except UnicodeEncodeError:
            raise ConfigError([f"--{declared.flag}: is not UTF-8, and can't be in a configuration file"]) from None


def _tree(declared: Option, value: Any) -> Any:
    if isinstance(value, Path):
        value = value.absolute()
    return None if value is None else declared.type.tree(value)
