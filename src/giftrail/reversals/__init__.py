"""The taking back of orders as work: asked for, being voided by providers, ended."""
