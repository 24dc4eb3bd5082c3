"""curl, over TLS, speaking either protocol."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from oarlock.endpoints.http import Request, Response
from oarlock.server.serving.certificates.serving_pair import ServingFiles

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(shutil.which("curl") is None, reason="curl isn't installed")]


@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_curl(server: Any, tls_contexts: Any, certificates: ServingFiles, tmp_path: Path, version: str) -> None:
    async def handler(request: Request) -> Response:
        body = await request.read()
        return Response(200, [("x-version", "2" if request.http2 else "1.1")], body + b"!")

    upload = tmp_path / "upload"
    upload.write_bytes(b"x" * 2_000_000)
    async with server(handler, tls=tls_contexts("h2", "http/1.1")) as s:
        process = await asyncio.create_subprocess_exec(
            *(
                "curl",
                "-sS",
                f"--http{version}",
                "--cacert",
                str(certificates.ca),
                "-w",
                "%header{x-version} %{http_code}",
            ),
            *("--data-binary", f"@{upload}", f"https://localhost:{s.listening.port}/a"),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0
        assert out == b"x" * 2_000_000 + b"!" + f"{version} 200".encode()
