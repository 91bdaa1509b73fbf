"""The registry of types: `by_oid[23]`, `by_name['int4']`. Importing this package registers every built-in type."""
