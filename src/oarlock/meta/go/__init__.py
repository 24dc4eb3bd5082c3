"""Texts as Go's standard library reads and writes them."""
