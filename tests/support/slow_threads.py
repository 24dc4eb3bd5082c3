"""A plugin of pytest: work that is given to a thread begins late. What hopes for quick threads fails with it.

`PYTHONPATH=tests/support python -m pytest -p slow_threads tests/unit tests/walk`; `THREAD_DELAY_S` says how late.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

DELAY_S = float(os.environ.get("THREAD_DELAY_S", "0.05"))
_submit = ThreadPoolExecutor.submit


def _submitted_late(self: ThreadPoolExecutor, function: Any, /, *args: Any, **options: Any) -> Future[Any]:
    def late() -> Any:
        time.sleep(DELAY_S)
        return function(*args, **options)

    return _submit(self, late)


ThreadPoolExecutor.submit = _submitted_late  # type: ignore[method-assign, assignment]
