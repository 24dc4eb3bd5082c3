"""Watches: the encoding of events (`frames`), and the connection of cache and stream (`watcher`)."""
