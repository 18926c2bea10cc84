"""Sharding plans: how they are written, which arrays they mean, and what each costs."""
