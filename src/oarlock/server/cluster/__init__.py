"""What a server that extends a cluster asks that cluster for."""
