"""Compares an older schema of a version with today's: which changes may leave stored objects that no longer fit.

`canonical` is what of a schema counts, `compare` walks two of them, `bounds` and `alike` compare single places.
Pure. Must not know: stores, objects.
"""
