"""Whatever stands in a command line or a configuration file is taken or refused, never a traceback."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.codec import yaml
from oarlock.server.command import ServeOptions
from oarlock.server.config import ServerConfig
from oarlock.server.options.commands import UsageError, read_options
from oarlock.server.options.file import API_VERSION, KIND, as_file, read_file
from oarlock.server.options.option import ConfigError, options_of

OPTIONS = options_of(ServerConfig)
FLAGS = st.sampled_from([f"--{one.flag}" for one in OPTIONS] + ["-v", "--", "-", "---", "--nope"])
VALUES = st.text(max_size=8) | st.sampled_from(
    ["1", "-1", "0", "1e999", "nan", "1m", "1Mi", "true", "sqlite:///x", "sqlite://u:pa5s@[", "memory://", "::1", ","]
)
WORDS = st.lists(FLAGS | VALUES | st.builds("{}={}".format, FLAGS, VALUES), max_size=6)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.dictionaries(st.sampled_from([one.file_field for one in OPTIONS]) | st.text(max_size=8), TREES, max_size=5)


@given(WORDS)
@examples(300)
def test_of_command_lines(words: list[str]) -> None:
    made, lines = outcome(words)
    assert (made is None) == bool(lines)
    assert "pa5s" not in "".join(lines)
    if made is not None:
        assert "pa5s" not in as_file(made) + repr(made)
        assert outcome(words)[0] == made


def outcome(words: list[str]) -> tuple[ServeOptions | None, tuple[str, ...]]:
    try:
        return read_options(ServeOptions, words, "oarlock serve"), ()
    except (ConfigError, UsageError) as error:
        return None, error.lines


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config") / "server.yaml"


@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@examples(200)
def test_of_files(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert read_file(OPTIONS, file).problems  # no apiVersion can be found by chance


@given(fields=FIELDS)
@examples(300)
def test_of_fields(file: Path, fields: dict[str, Any]) -> None:
    tree = {**fields, "apiVersion": API_VERSION, "kind": KIND}
    try:
        file.write_bytes(yaml.encode(tree))
    except Exception:  # what YAML can't say can't be in a file
        return
    made, lines = outcome(["--config", str(file)])
    assert (made is None) == bool(lines)
    if made is None:
        return
    assert all(math.isfinite(value) for value in vars(made).values() if isinstance(value, float))
    file.write_text(as_file(made))
    again = read_options(ServeOptions, ["--config", str(file)], "oarlock serve")
    assert as_file(again) == as_file(made)
