"""What an expression may cost at most, before it runs. Read `cost_estimate` first."""
