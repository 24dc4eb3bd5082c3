"""Simulated nodes: Node objects with leases, and pods that run as a kubelet reports it."""
