"""The console's assets in the package are made of its sources, in ``console/``, as they are."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "console"
ADVICE = ROOT / "src" / "oarlock" / "cli" / "doctor" / "advice.json"
ASSETS = ROOT / "src" / "oarlock" / "server" / "console" / "assets"
MANIFEST = json.loads((ASSETS / "manifest.json").read_text())

MOST_BYTES = 1_500_000
"""What a plain install carries of a console that not everybody wants."""


def hash_of_sources() -> str:
    """As ``console/build.mjs`` computes it."""
    files = [SOURCES / name for name in ("build.mjs", "package.json", "package-lock.json", "tsconfig.json")]
    files += [ADVICE, *(path for path in (SOURCES / "src").rglob("*") if path.is_file())]
    digest = hashlib.sha256()
    for name, path in sorted((os.path.relpath(path, SOURCES), path) for path in files):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def test_assets_are_made_of_their_sources() -> None:
    assert MANIFEST["sources"] == hash_of_sources(), "run make console"


def test_the_manifest_lists_what_there_is() -> None:
    assert MANIFEST["files"] == sorted(path.name for path in ASSETS.iterdir() if path.name != "manifest.json")
    assert sum(path.stat().st_size for path in ASSETS.iterdir()) < MOST_BYTES


def test_there_is_one_style_sheet_which_the_page_loads() -> None:
    """One that belongs to a chunk would be loaded by nobody."""
    assert [path.name for path in ASSETS.glob("*.css")] == ["main.css"]
    assert "BUILD/main.css" in (ASSETS / "index.html").read_text()


def test_no_asset_asks_another_server() -> None:
    loaded = re.compile(r"""(?:\bimport\s*\(|\bfrom|\bfetch\()\s*["'`]https?:|url\(["']?https?:|src=["']https?:""")
    assert [path.name for path in ASSETS.iterdir() if loaded.search(path.read_text())] == []
