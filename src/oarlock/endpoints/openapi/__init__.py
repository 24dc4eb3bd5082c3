"""OpenAPI: what the server's documents say of its kinds and operations, in both dialects.

`operations` and `kinds` say what there is, `documents_v3` and `documents_v2` write it down, `documents` serves it.
"""

from __future__ import annotations

from oarlock.endpoints.openapi.documents import OpenAPIDocuments
from oarlock.endpoints.openapi.documents_v3 import Info

__all__ = ["Info", "OpenAPIDocuments"]
