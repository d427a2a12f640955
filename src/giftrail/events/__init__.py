"""The outbox: what happened, written in the transaction in which it happened."""
