"""Conversion between the versions of a resource. Read `converter` first."""
