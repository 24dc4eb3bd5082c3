"""Validates trees against schemas, with Kubernetes' paths and messages."""
