"""``oarlock manifests``: the objects with which a server runs behind a cluster, as an extension API server."""
