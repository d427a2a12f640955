"""Issued codes: sealed at rest, each sold once."""
