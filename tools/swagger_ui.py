"""Puts the files of Swagger UI into the package, from npm's ``swagger-ui-dist``: ``tools/swagger_ui.py 5.35.0``.

Script and style are packed, as they are sent; license texts stay as they are.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[1] / "src" / "oarlock" / "server" / "openapi_ui" / "assets"
PACKED = ("swagger-ui-bundle.js", "swagger-ui.css")
TEXTS = {"LICENSE": "LICENSE", "NOTICE": "NOTICE", "swagger-ui-bundle.js.LICENSE.txt": "LICENSES-OF-PARTS"}


def main(version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"swagger-ui-dist@{version}"], cwd=folder, check=True)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            for name in (*PACKED, *TEXTS):
                member = archive.extractfile(f"package/{name}")
                assert member is not None
                data = member.read().replace(b"\n//# sourceMappingURL=swagger-ui-bundle.js.map", b"")
                data = data.replace(b"\n/*# sourceMappingURL=swagger-ui.css.map*/", b"")
                if name in PACKED:
                    (ASSETS / f"{name}.gz").write_bytes(gzip.compress(data, 9, mtime=0))
                else:
                    (ASSETS / TEXTS[name]).write_bytes(data)
    (ASSETS / "VERSION").write_text(f"swagger-ui-dist {version}\n")


if __name__ == "__main__":
    main(sys.argv[1])
