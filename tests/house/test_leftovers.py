"""Nothing unfinished and nothing of one person's machine is left in the source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "examples", "tests", "tools", "benchmarks", "docs", "decisions")
CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
ENDINGS = {".py", ".md", ".toml", ".sh", ""}
FILES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*"))
    if path.is_file() and path.suffix in ENDINGS and not CACHES & {*path.parts}
] + [path for path in sorted(ROOT.iterdir()) if path.is_file() and path.suffix in ENDINGS - {""}]

LEFT_OVER = re.compile(
    r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|raise NotImplemented" r"Error|\bbreak" r"point\(|\bimport p" r"db\b"
)
PRIVATE_KEY = re.compile(rb"-----BEGIN (?:[A-Z]+ )?PRIVATE" rb" KEY-----")
SOMEBODYS = re.compile(r"(?<![\w.])/(?:ho" r"me|ro" r"ot|wo" r"rk|Us" r"ers)/\w")


@pytest.mark.parametrize("pattern", [LEFT_OVER, SOMEBODYS], ids=["unfinished", "of one machine"])
def test_nothing_is_left_over(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in FILES
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_private_key_is_kept() -> None:
    """A server that runs in a folder of the source, such as a benchmark's, has its data directory elsewhere."""
    kept = [
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and not CACHES & {*path.parts} and PRIVATE_KEY.search(path.read_bytes())
    ]
    assert kept == []
