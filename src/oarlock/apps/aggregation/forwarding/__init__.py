"""Requests to backends over HTTP/1.1, streamed both ways."""
