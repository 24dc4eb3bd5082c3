"""From method and path to what answers. Read `router` first."""
