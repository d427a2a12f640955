"""What remote providers were asked for, what they delivered, and whether they are well."""
