"""Bytes at keys, with revisions: the `backend` protocol, its implementations, and the watch `cache` above them.

Only storage assigns revisions. It knows no kinds, users or HTTP. Read `backend` first.
"""
