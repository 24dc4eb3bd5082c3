"""Aggregation: other servers answer for groups and versions that an APIService names."""
