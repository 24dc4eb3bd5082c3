"""Discovery: what clients ask a server before anything else, namely which groups, versions and resources it has.

`legacy` writes one document per group and version, `aggregated` one for everything; `documents` keeps the
bytes of one catalog and answers requests with them. Source: KEP-3352 and the API concepts page.
"""

from __future__ import annotations

from oarlock.endpoints.discovery.documents import DiscoveryDocuments

__all__ = ["DiscoveryDocuments"]
