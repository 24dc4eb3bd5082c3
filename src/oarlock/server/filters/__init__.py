"""The steps of the chain, one file each; their order is in ``server.chain`` and nowhere else."""
