"""What a server's authorization is made of, by its options. See also: `assembly`, where to begin."""
