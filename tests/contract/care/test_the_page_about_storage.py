"""What docs/storage.md shows of backups, restoring, moving and exporting can be carried out as it is written."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import oarlock
from oarlock.storage.care.operations import opened

PAGE = Path(__file__).resolve().parents[3] / "docs" / "storage.md"
SECTIONS = ("Backups", "Restore", "Moving to another store", "Objects as YAML", "How much is in it?")
ORDER = (
    b'{"apiVersion":"shop.example.com/v1","kind":"Order","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z",'
    b'"name":"a","namespace":"default","uid":"u"},"spec":{}}'
)
RECORD = b'{"kind":"Order","storedAs":"v1","storedVersions":["v1"],"versions":["v1"]}'


def commands() -> list[str]:
    """The command lines of these sections, in order."""
    found = []
    for title in SECTIONS:
        [section] = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        for block in re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            found += [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    return found


@pytest.mark.slow
def test_its_commands_run_in_their_order(tmp_path: Path) -> None:
    async def fill() -> None:
        async with opened(f"sqlite:///{tmp_path / 'oarlock.db'}", create=True) as backend:
            await backend.put("/oarlock/definitions", b'{"form":2}', expect=0)
            await backend.put("/oarlock/definitions/orders.shop.example.com", RECORD, expect=0)
            await backend.put("/registry/shop.example.com/orders/default/a", ORDER, expect=0)

    asyncio.run(fill())
    (tmp_path / "backups").mkdir()
    (tmp_path / "shop").mkdir()
    folders = {"/tmp/": f"{tmp_path}/", "/var/backups": f"{tmp_path}/backups", "/srv/shop": f"{tmp_path}/shop"}
    environment = {**os.environ, "PYTHONPATH": str(Path(oarlock.__path__[0]).parent)}
    lines = commands()
    assert len(lines) >= 8
    for line in lines:
        command = line.replace("-03.", "-$(date +%H).")
        for shown, real in folders.items():
            command = command.replace(shown, real)
        command = command.replace("oarlock storage", f"{sys.executable} -m oarlock storage", 1)
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)
