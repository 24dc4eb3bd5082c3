"""Watches: the encoding of events (`event_frames`), and the connection of cache and stream (`watcher`)."""
