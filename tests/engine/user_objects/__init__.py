"""User-defined aggregates, operators, casts and range types, and dependencies of columns, beside PostgreSQL."""
