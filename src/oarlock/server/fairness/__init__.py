"""Priority and fairness of a server beside the filter: where its settings come from, what it shows."""
