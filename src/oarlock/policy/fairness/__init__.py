"""Priority and fairness: who is served next when not everybody can be served at once (KEP-1040)."""
