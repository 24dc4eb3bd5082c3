"""How fast is this machine now? CPU µs of a fixed piece of work, so that figures mean the same on each machine.

The work is what a server does: Python on small objects, JSON, a hash, and a kilobyte through TLS and back.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import tempfile
import time
from pathlib import Path

from oarlock.server.serving.certificates.serving_pair import ensure_certificates

ROUNDS = 9
UNITS = 2000
SHORT_ROUNDS = 7
SHORT_UNITS = 200
DOCUMENT = {
    "metadata": {"name": "n", "labels": {f"label-{i}": "v" * 8 for i in range(8)}},
    "spec": {f"field-{i}": [i, str(i), {"a": i}] for i in range(20)},
}


class Pipe:
    """Two ends of TLS 1.3 in memory."""

    def __init__(self, folder: Path) -> None:
        files = ensure_certificates(folder, (), time.time())
        of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        of_server.load_cert_chain(files.certificate, files.key)
        of_client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        of_client.check_hostname, of_client.verify_mode = False, ssl.CERT_NONE
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = of_server.wrap_bio(there, back, server_side=True)
        self.client = of_client.wrap_bio(back, there)
        open_ends = {self.client, self.server}
        while open_ends:
            for end in list(open_ends):
                try:
                    end.do_handshake()
                    open_ends.remove(end)
                except ssl.SSLWantReadError:
                    pass

    def carry(self, data: bytes) -> bytes:
        self.client.write(data)
        self.server.write(self.server.read(65536))
        return self.client.read(65536)


def work(pipe: Pipe) -> tuple[bytes, int]:
    """One unit."""
    text = json.dumps(DOCUMENT).encode()
    tree = json.loads(pipe.carry(text))
    total = 0
    for name, value in sorted(tree["spec"].items(), reverse=True):
        total += len(name) + value[0]
    return hashlib.sha256(text * 4).digest(), total


class Calibration:
    """Says how fast the machine is, as often as it is asked."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="oarlock-bench-")
        self._pipe = Pipe(Path(self._folder.name))

    def __enter__(self) -> Calibration:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def rounds(self, count: int, units: int) -> list[float]:
        """CPU µs of one unit, in each of some rounds."""
        taken = []
        for _ in range(count):
            began = time.process_time()
            for _ in range(units):
                work(self._pipe)
            taken.append((time.process_time() - began) / units * 1e6)
        return taken

    def unit_us(self) -> float:
        """In this moment: the best of short rounds. It never makes a goal easier than the machine makes the work."""
        return min(self.rounds(SHORT_ROUNDS, SHORT_UNITS))

    def best_us(self) -> float:
        """What the machine can do when nobody disturbs it: the best of some rounds."""
        return min(self.rounds(ROUNDS, UNITS))
