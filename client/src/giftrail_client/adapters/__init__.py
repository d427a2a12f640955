"""A `WebhookRouter` inside a web framework: the raw body is read, its event kept, 2xx answered, and then handled.

Import the module of your framework: `asgi` (Starlette, Quart, Django under ASGI), `fastapi`, `flask` or `django`.
"""
