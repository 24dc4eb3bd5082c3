"""What a control plane says of itself in objects, and keeps there. Read `upkeep` first."""
