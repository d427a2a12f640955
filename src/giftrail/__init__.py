"""Giftrail: a gift voucher partner service on PostgreSQL."""

__version__ = "0.1.0"
