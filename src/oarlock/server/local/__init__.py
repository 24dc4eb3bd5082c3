"""Requests of this process to its own server, without a socket. Read `transport` first."""
