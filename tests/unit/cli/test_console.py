"""``oarlock console``: the console as files, which a proxy serves beside the API of another server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from oarlock.cli.commands import COMMANDS
from oarlock.server.command import exit_code_of


def test_the_files_are_whole_and_the_page_has_a_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "my console"
    assert exit_code_of(COMMANDS, ["console", "-o", str(folder), "--name", "harbour"]) == 0
    assert f"kubectl proxy --www='{folder}' --www-prefix=/console/\n" in capsys.readouterr().out
    page = (folder / "index.html").read_text()
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(loaded) == 3
    assert [path for path in loaded if not (folder / path).is_file()] == []
    assert json.loads((folder / "settings.json").read_text()) == {"name": "harbour", "oidc": None}
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'"} <= {*policy[1].split("; ")}
