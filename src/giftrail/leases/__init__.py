"""Rows as work: claimed for a time, finished or put off, over any work table (engines, work rows)."""
