"""The types of a Kubernetes release, as its OpenAPI documents publish them.

`files` finds the data of a release, `published` reads it. What kinds are made of it is in ``apps.kinds.released``.
"""
