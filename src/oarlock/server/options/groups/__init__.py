"""The options of a server, a module for each group; ``server.config`` joins them."""
