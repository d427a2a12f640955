"""The auditor: what must be true of orders, money and codes together."""
