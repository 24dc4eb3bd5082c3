"""Discovery: the groups, versions and resources of the server, which clients ask for first.

`legacy` writes one document per group and version, `aggregated` one for all; `documents` keeps the bytes of one
catalog's documents and answers requests. Source: KEP-3352 and the API concepts page.
"""

from __future__ import annotations

from oarlock.endpoints.discovery.documents import DiscoveryDocuments

__all__ = ["DiscoveryDocuments"]
