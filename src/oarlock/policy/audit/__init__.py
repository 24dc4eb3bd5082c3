"""Audit: which requests are recorded, at which level, and what is recorded of each. No I/O, no HTTP."""
