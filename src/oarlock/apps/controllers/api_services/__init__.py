"""APIServices: registered, forwarded, and asked whether they are available. Read `forwarding` first."""
