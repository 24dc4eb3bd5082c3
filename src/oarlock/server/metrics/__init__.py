"""What a server counts, and its ``/metrics`` page."""
