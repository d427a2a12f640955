"""Spending limits: how much a partner may order in an hour, a day, a month."""
