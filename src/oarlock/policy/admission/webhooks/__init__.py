"""Admission webhooks: programs elsewhere that are asked about writes.

`rules` says which are asked, `conditions` when, `review` what, and `plugins` are the members of the admission chain.
"""
