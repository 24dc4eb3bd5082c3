"""One resource: the recipes that create, read, update and delete its objects, and where users hang code.

Registry alone sets uid, generation and deletionTimestamp. It knows no URL and no media type: it is
handed a `Context`, trees and a `Gate`, and hands back what to show. Read `served`, then `resource`,
then the recipes `create`, `update`, `delete` and `read`.
"""
