"""Vouchers to recipients: to whom, by which channel, what is said, and the links that lead to the voucher page."""
