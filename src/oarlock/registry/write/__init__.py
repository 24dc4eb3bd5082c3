"""The recipes of CREATE, UPDATE, PATCH and DELETE, and the steps they are made of. Read `create`, then `update`."""
