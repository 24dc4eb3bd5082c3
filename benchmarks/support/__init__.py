"""What the benchmarks share: a server of its own in a temporary folder, and load with figures per operation."""
