"""What a control plane is made of: one `ControlPlanePart` for each concern. Read `standard` first, which lists them."""
