"""User-defined aggregates, operators, casts and range types, beside PostgreSQL."""
