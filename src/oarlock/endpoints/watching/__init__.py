"""Watches: what an event looks like on the wire (`frames`), and what stands between cache and stream (`watcher`)."""
