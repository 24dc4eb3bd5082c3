"""The filters, one file each; their order is in ``server.chain``."""
