"""The store in an etcd cluster, in the layout of kube-apiserver.

See also: `address` for URLs, `backend`.
"""

__all__: list[str] = []
