"""OpenAPI v3 and v2 documents of the server's kinds and operations.

`operations` and `kinds` describe what there is, `documents_v3` and `documents_v2` write it, `documents` serves it.
"""

from __future__ import annotations

from oarlock.endpoints.openapi.documents import OpenAPIDocuments
from oarlock.endpoints.openapi.documents_v3 import Info

__all__ = ["Info", "OpenAPIDocuments"]
