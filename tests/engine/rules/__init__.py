"""Rules of tables and views, beside PostgreSQL."""
