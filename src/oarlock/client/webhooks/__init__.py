"""Reviews sent to the webhooks that objects of the API name. Read `calls` first."""
