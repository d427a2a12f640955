"""PostgreSQL: pools, the embedded server, migrations, and word of what changed."""
