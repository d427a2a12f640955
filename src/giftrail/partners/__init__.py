"""Who may call: partners, their credentials, their networks, and the tokens they are given."""
