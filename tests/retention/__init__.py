"""Retention and the chamberlain (LIFE-8 … LIFE-13)."""
