"""Role-based access control: who may do what, by roles and their bindings. See also: `policy`, where to begin."""
