"""Event triggers, beside PostgreSQL."""
