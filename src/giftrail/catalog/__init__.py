"""Brands, for whom they are enabled, and at what discount."""
