"""Audit as a server does it: the policy's file, sinks for events, what they count. See also: ``filters.audit``."""
