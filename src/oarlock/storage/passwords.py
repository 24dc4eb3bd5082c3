"""Hides passwords in texts that contain URLs.

Must not know: which stores there are. See also: `url`.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

__all__ = ["without_password"]

_user_info = re.compile(r"(://[^\s:@/]*):\S*@")  # hides too much rather than too little
_parameter = re.compile(r"(?<=[?&;])([^\s=&;?]+)=[^\s&]*")
_secret = re.compile("pass|pwd|secret|token", re.IGNORECASE)


def without_password(text: str) -> str:
    """`text` as it may be shown: ``postgres://user:***@host/db?sslpassword=***`` for each URL in it."""
    return _parameter.sub(_hidden, _user_info.sub(r"\1:***@", text)) if "://" in text else text


def _hidden(parameter: re.Match[str]) -> str:
    return f"{parameter[1]}=***" if _secret.search(unquote_plus(parameter[1])) else parameter[0]
