"""How controllers run: queues, loops, and the election of a leader. Read `group`, then `loop`."""
