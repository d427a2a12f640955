"""A throwaway house, furnished, and a partner's day in it."""
